"""Tables of finished runs as CSV files, to which several processes add."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from carms.lab.runs.writing import write_atomically


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none if there is no such file."""
    if not path.exists():
        return []
    *lines, rest = path.read_text().split("\n")
    if rest or not lines:
        raise ValueError(f"{path} is damaged in line {len(lines) + 1}: it is cut off")
    return list(csv.DictReader(lines))


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a table, or nothing of it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def add(path: Path, rows: Sequence[Mapping[str, object]], key: Sequence[str]) -> None:
    """Add the rows of a run to a table, in the place of what it has of this run.

    Args:
        path: file of the table.
        rows: all rows of the run.
        key: columns that tell one run from another.
    """
    with FileLock(path.with_suffix(".lock")):
        own = key_of(rows[0], key)
        others = [row for row in read(path) if key_of(row, key) != own]
        write(path, [*others, *rows])


def key_of(row: Mapping[str, object], key: Sequence[str]) -> tuple[str, ...]:
    """What tells the run of a row from others."""
    return tuple(str(row[name]) for name in key)
