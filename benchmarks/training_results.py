"""What the training runs came to: CSV tables, read and written, and what is computed from them."""

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from carms.lab.runs.writing import write_atomically

HERE = Path(__file__).parent.parent / "docs" / "results"
TABLE, TIMES = HERE / "training.csv", HERE / "training_times.csv"

Line = tuple[str, str, int]
"""Network, estimator and samples."""
Run = dict[int, float]
"""Value at each step."""
Runs = dict[str, Run]
"""Runs of one line by their seeds."""


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


def runs(column: str) -> dict[Line, Runs]:
    """One column of the table, as runs by seed."""
    found: dict[Line, Runs] = defaultdict(lambda: defaultdict(dict))
    for row in read(TABLE):
        found[line_of(row)][row["seed"]][int(row["step"])] = float(row[column])
    return found


def times() -> dict[Line, float]:
    """Time of a step relative to that of loorf with ten samples."""
    found = {line_of(row): float(row["milliseconds"]) for row in read(TIMES)}
    return {which: value / found[which[0], "loorf", 10] for which, value in found.items()}


def at_time(run: Run, step_time: float, budget: float) -> float | None:
    """Value after the time of ``budget`` steps of loorf, interpolated between two steps.

    None if the run does not reach that time, or has no value before it.
    """
    steps, wanted = sorted(run), budget / step_time
    if not steps or not steps[0] <= wanted <= steps[-1]:
        return None
    return float(np.interp(wanted, steps, [run[step] for step in steps]))


def seeds_at(own: Runs, step_time: float, budget: float) -> dict[str, float]:
    """What ``at_time`` gives for each seed that reaches that time."""
    found = {seed: at_time(run, step_time, budget) for seed, run in own.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def leads(own: Mapping[str, float], reference: Mapping[str, float]) -> list[float]:
    """Differences to the reference, seed by seed, for the seeds that both have.

    Seeds differ by more than estimators do, so values of different seeds are not compared.
    """
    return [value - reference[seed] for seed, value in own.items() if seed in reference]
