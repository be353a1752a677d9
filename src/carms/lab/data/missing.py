"""The error for sets of images that are not here."""

from collections.abc import Iterable

from carms.lab.runs.printable import printable

__all__ = ["MissingData", "indented"]


class MissingData(FileNotFoundError):  # noqa: N818
    """A set of images that is not here, or could not be fetched.

    The message has several lines, and every name in it is printable.
    """


def indented(items: Iterable[object]) -> str:
    """Make an indented, printable line of each item."""
    return "\n".join(f"  {printable(str(item))}" for item in items)
