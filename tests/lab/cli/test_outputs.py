"""Outputs that cannot be written, which commands refuse before their work."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from carms.lab.cli.correlations import Correlations
from carms.lab.cli.plot import Plot
from carms.lab.cli.report import Report
from carms.lab.cli.sweep import Sweep
from carms.lab.cli.toy import Toy


@pytest.mark.parametrize(
    "command", [Correlations, Toy, lambda out: Plot((), out), lambda out: Report((), out)]
)
def test_an_output_below_a_file_is_refused_before_the_work(tmp_path, command):
    (tmp_path / "file").touch()
    console = Console(file=io.StringIO())
    with pytest.raises(ValueError, match="file is not a directory"):
        command(out=tmp_path / "file" / "out.png").run(console)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize("grid", ["short-vae", "contest/routing"])
def test_a_sweep_below_a_file_is_refused_before_the_work(tmp_path, grid):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(ValueError, match=f"cannot write {out}: .*file is not a directory"):
            Sweep(grid, out).run(Console(quiet=True))


def test_a_report_is_no_directory():
    with pytest.raises(ValueError, match=r"out must name a file to write, got the directory '\.'"):
        Report((), Path()).run(Console(quiet=True))


def test_probabilities_are_divided_before_they_overflow(tmp_path):
    console = Console(file=io.StringIO())
    Correlations((1e308, 1e308), 2, tmp_path / "a.png").run(console)
    assert "nan" not in console.file.getvalue()


@pytest.mark.parametrize("least", [1e-20, 1e-320])
def test_a_probability_that_is_lost_in_rounding_is_refused(tmp_path, least):
    with pytest.raises(ValueError, match=r"must be at least 2\.2e-16 of their sum"):
        Correlations((1, least), 2, tmp_path / "a.png").run(Console(quiet=True))
    assert not list(tmp_path.iterdir())
