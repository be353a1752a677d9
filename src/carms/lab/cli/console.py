"""The console that the commands print to."""

from typing import Any

from rich.console import Console
from rich.text import Text

from carms.lab.runs.printable import printable

__all__ = ["PlainConsole"]


class PlainConsole(Console):
    """A console that prints text as it is: names may hold markup, or escapes for the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(soft_wrap=True, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of every string that is printed, on its own or in a table."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)
