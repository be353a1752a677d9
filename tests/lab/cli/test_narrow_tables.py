"""Tables in a terminal that is narrower than they are."""

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import PlainConsole, print_table
from carms.lab.cli.correlations import Correlations

NUMBERS = "carms-s", "300,000", "-104.02", "-105.60", "123.99"


def lines_of(name, console):
    table = Table(title="Log likelihood")
    table.add_column("run", overflow="fold")
    for heading in ("estimator", "step", "train", "test", "ms"):
        table.add_column(heading, justify="right")
    table.add_row(name, *NUMBERS)
    print_table(console, table)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("kind", [Console, PlainConsole])
@pytest.mark.parametrize("width", [60, 40, 10])
def test_no_column_is_left_out_and_no_number_is_cut(kind, width):
    lines = lines_of("first", kind(file=StringIO(), width=width))
    assert any(all(text in line for text in ("first", *NUMBERS)) for line in lines)


def test_a_long_name_folds_and_leaves_room_for_the_numbers():
    lines = lines_of("long-name-" * 8, PlainConsole(file=StringIO(), width=80))
    assert max(map(len, lines)) == 80
    assert any(all(text in line for text in NUMBERS) for line in lines)


def test_commands_print_whole_tables(tmp_path):
    console = PlainConsole(file=StringIO(), width=20)
    Correlations(out=tmp_path / "correlations.png").run(console)
    assert "…" not in console.file.getvalue()
