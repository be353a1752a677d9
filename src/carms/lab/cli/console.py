"""The console that the commands print to."""

from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from carms.lab.runs.printable import printable

__all__ = ["PlainConsole", "print_table"]

# The least width of a column whose words may be folded, and a width in which any cell fits.
FOLDED, WIDEST = 16, 1000


class PlainConsole(Console):
    """A console that prints text as it is: names may hold markup, or escapes for the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(soft_wrap=True, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of every string that is printed, on its own or in a table."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def print_table(console: Console, table: Table) -> None:
    """Print a table with all its columns and digits.

    Rich would leave out columns and cut numbers to fit a narrow terminal. Here the terminal wraps
    the lines instead.
    """
    wide = console.options.update(width=WIDEST)
    for column in table.columns:
        texts = (column.header, *column.cells)
        least = max(Measurement.get(console, wide, text).minimum for text in texts)
        column.min_width = min(least, FOLDED) if column.overflow == "fold" else least
        column.max_width = column.min_width
    least_width = Measurement.get(console, wide, table).maximum
    for column in table.columns:
        column.max_width = None
    if least_width > console.width:
        table.width = least_width
    console.print(table, crop=False)
