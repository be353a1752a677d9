"""The command for the toy problem."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from carms.lab.cli.toy import Toy


def screen():
    return Console(file=StringIO(), force_terminal=True, width=80, color_system=None)


def test_names_are_checked_before_the_bar(tmp_path):
    console = screen()
    with pytest.raises(ValueError, match="loorff"):
        Toy(("loorf", "loorff"), tmp_path / "toy.png").run(console)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"problems": 0}, "a problem and 2 replicates at least"),
        ({"estimators": ("loorf", "loorf")}, "give each estimator once"),
        ({"replicates": 10**12}, r"replicates .* of shape \[1000000000000, 50, 3, 3\] would take"),
        ({"seed": 10**20}, "seed must be at least 0 and below 2\\^63, got 100000000000000000000"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"out": Path()}, "out must name a picture to write, got '.'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_bar(monkeypatch, tmp_path, flags, message):
    monkeypatch.chdir(tmp_path)
    console = screen()
    with pytest.raises(ValueError, match=message):
        Toy(**flags).run(console)
    assert console.file.getvalue() == ""
    assert not list(tmp_path.iterdir())


def test_the_table_fits_eighty_columns(tmp_path):
    console = screen()
    Toy(("loorf", "carms-s"), tmp_path / "toy.png", problems=2, replicates=20).run(console)
    (headings,) = [line for line in console.file.getvalue().splitlines() if "alpha" in line]
    assert headings.replace("┃", "").split("  ")[-1].strip() == "bias"
    assert "alpha 1000" in headings
