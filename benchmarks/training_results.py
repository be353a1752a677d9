"""What the training runs came to: CSV tables, read and written, and curves made of them."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from filelock import FileLock

from carms.lab.runs.writing import write_atomically

HERE = Path(__file__).parent.parent / "docs" / "results"
TABLE, TIMES = HERE / "training.csv", HERE / "training_times.csv"

Line = tuple[str, str, int]
"""Network, estimator and samples."""
Curve = dict[int, list[float]]
"""Values of all seeds at each step."""


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none if there is no such file."""
    if not path.exists():
        return []
    *lines, rest = path.read_text().split("\n")
    if rest or not lines:
        raise ValueError(f"{path} is damaged in line {len(lines) + 1}: it is cut off")
    return list(csv.DictReader(lines))


def line_of(row: dict[str, str]) -> Line:
    return row["network"], row["estimator"], int(row["samples"])


def run_of(row: Mapping[str, object]) -> tuple[str, ...]:
    """Network, estimator, samples and seed."""
    return tuple(str(row[name]) for name in ("network", "estimator", "samples", "seed"))


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a table, or nothing of it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def add(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add the rows of a run to a table, in the place of what it has of this run."""
    with FileLock(path.with_suffix(".lock")):
        others = [row for row in read(path) if run_of(row) != run_of(rows[0])]
        write(path, [*others, *rows])


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


def seeds_at_time(column: str, budget: float) -> dict[Line, dict[str, float]]:
    """What ``at_time`` gives for each seed that reaches that time, by its number."""
    relative = times()
    by_run: dict[tuple[Line, str], Curve] = defaultdict(dict)
    for row in read(TABLE):
        by_run[line_of(row), row["seed"]][int(row["step"])] = [float(row[column])]
    found: dict[Line, dict[str, float]] = defaultdict(dict)
    for (which, seed), curve in by_run.items():
        value = at_time(curve, relative[which], budget)
        if value is not None:
            found[which][seed] = value
    return found
