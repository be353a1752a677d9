"""What the training runs came to: CSV tables, read and written, and curves made of them."""

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent.parent / "docs" / "results"
TABLE, TIMES = HERE / "training.csv", HERE / "training_times.csv"

Line = tuple[str, str, int]
"""Network, estimator and samples."""
Curve = dict[int, list[float]]
"""Values of all seeds at each step."""


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none if there is no such file."""
    return list(csv.DictReader(path.open())) if path.exists() else []


def line_of(row: dict[str, str]) -> Line:
    return row["network"], row["estimator"], int(row["samples"])


def append(path: Path, rows: Iterable[dict[str, object]]) -> None:
    """Add rows to a table, which gets a header first if it is new."""
    rows, new = list(rows), not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def curves(column: str) -> dict[Line, Curve]:
    """Curves of one column of the table."""
    found: dict[Line, Curve] = defaultdict(lambda: defaultdict(list))
    for row in read(TABLE):
        found[line_of(row)][int(row["step"])].append(float(row[column]))
    return found


def times() -> dict[Line, float]:
    """Time of a step relative to that of loorf with ten samples."""
    found = {line_of(row): float(row["milliseconds"]) for row in read(TIMES)}
    return {which: value / found[which[0], "loorf", 10] for which, value in found.items()}


def at_time(curve: Curve, step_time: float, budget: float) -> float | None:
    """Mean over seeds after the time of ``budget`` steps of loorf, interpolated between two steps.

    None if the curve does not reach that time.
    """
    steps = sorted(curve)
    wanted = budget / step_time
    for before, after in pairwise(steps):
        if before <= wanted <= after:
            share = (wanted - before) / (after - before)
            low, high = (statistics.mean(curve[step]) for step in (before, after))
            return low + share * (high - low)
    return None
