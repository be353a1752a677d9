"""The command for the toy problem."""

from io import StringIO

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


def test_the_table_fits_eighty_columns(tmp_path):
    console = screen()
    Toy(("loorf", "carms-s"), tmp_path / "toy.png", problems=2, replicates=20).run(console)
    (headings,) = [line for line in console.file.getvalue().splitlines() if "alpha" in line]
    assert headings.replace("┃", "").split("  ")[-1].strip() == "bias"
    assert "alpha 1000" in headings
