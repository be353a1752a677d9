"""What the training runs came to, and what is computed from it."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from run_table import read

from carms.lab.contest.statistics import Mean

HERE = Path(__file__).parent.parent / "docs" / "results"
TABLE, TIMES = HERE / "training.csv", HERE / "training_times.csv"
KEY = ("network", "estimator", "samples", "seed")

Line = tuple[str, str, int]
"""Network, estimator and samples."""
Run = dict[int, float]
"""Value at each step."""
Runs = dict[str, Run]
"""Runs of one line by their seeds."""


def line_of(row: dict[str, str]) -> Line:
    return row["network"], row["estimator"], int(row["samples"])


def runs(column: str) -> dict[Line, Runs]:
    """One column of the table, as runs by seed."""
    found: dict[Line, Runs] = defaultdict(lambda: defaultdict(dict))
    for row in read(TABLE):
        found[line_of(row)][row["seed"]][int(row["step"])] = float(row[column])
    return found


def times() -> dict[Line, Mean]:
    """Time of a step relative to that of loorf with ten samples."""
    return {
        line_of(row): Mean(float(row["time"]), float(row["low"]), float(row["high"]))
        for row in read(TIMES)
    }


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


def bounds_at(budget: float) -> dict[Line, dict[str, float]]:
    """Test bounds by seed after the time of ``budget`` steps of loorf, if a line has a time."""
    relative = times()
    return {
        line: seeds_at(own, relative[line].value, budget)
        for line, own in runs("test_bound").items()
        if line in relative
    }


def leads_of_times(own: Line, reference: Line, budget: float) -> tuple[float, float] | None:
    """Mean leads at the ends of the intervals of both times that are worst and best for a line.

    None if a line does not reach one of these times.
    """
    bounds, relative = runs("test_bound"), times()
    ends = [
        (relative[own].high, relative[reference].low),
        (relative[own].low, relative[reference].high),
    ]
    found = [
        leads(seeds_at(bounds[own], mine, budget), seeds_at(bounds[reference], other, budget))
        for mine, other in ends
    ]
    if not all(found):
        return None
    low, high = map(statistics.mean, found)
    return low, high


def leads(own: Mapping[str, float], reference: Mapping[str, float]) -> list[float]:
    """Differences to the reference, seed by seed, for the seeds that both have.

    Seeds differ by more than estimators do, so values of different seeds are not compared.
    """
    return [value - reference[seed] for seed, value in own.items() if seed in reference]


def best_lines(found: Mapping[Line, Mapping[str, float]], network: str) -> dict[str, Line]:
    """By estimator, the line with the best mean over seeds, if it has several; the best first."""
    several = {line: own for line, own in found.items() if line[0] == network and len(own) > 1}
    best: dict[str, Line] = {}
    for line in sorted(several, key=lambda line: -statistics.mean(several[line].values())):
        best.setdefault(line[1], line)
    return best
