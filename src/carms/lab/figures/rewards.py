"""What runs of policy gradients came to, over their seeds."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from carms.lab.figures.figures import colour, save_figure

__all__ = ["draw_rewards", "spread", "steps_to", "variance_ratio"]

Metrics = Sequence[Mapping[str, Any]]
"""The lines of one run."""

_COLOURS = {"rloo": colour("loorf"), "carms": colour("carms-s")}


def steps_to(share: float, runs: Sequence[Metrics]) -> list[int | None]:
    """The first logged step at which each run had that reward on held-out prompts; None if never.

    Examples:
        >>> steps_to(0.5, [[{"step": 0, "reward": 0.1}, {"step": 9, "reward": 0.6}], []])
        [9, None]
    """
    return [next((row["step"] for row in run if row["reward"] >= share), None) for run in runs]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation; zero of a single value."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def variance_ratio(runs: Sequence[Metrics]) -> dict[int, float]:
    """By step: the variance of CARMS' gradient over that of RLOO's at the same parameters, both
    summed over runs.
    """
    found = {}
    for rows in zip(*runs, strict=True):
        if "variance_rloo" in rows[0]:
            independent = sum(row["variance_rloo"] for row in rows)
            if independent > 0:
                found[rows[0]["step"]] = sum(row["variance_carms"] for row in rows) / independent
    return found


def draw_rewards(methods: Mapping[str, Sequence[Metrics]], out: Path) -> list[Path]:
    """Rewards over steps, mean and range over seeds; and the variances that belong to them."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for method, runs in methods.items():
        _band(left, method, runs, "reward")
        _band(middle, method, runs, "solved")
        ratio = variance_ratio(runs)
        label = f"at parameters of {method}"
        right.plot([*ratio], [*ratio.values()], color=_COLOURS[method], label=label, marker=".")
    left.set(xlabel="step", ylabel="right digits, held-out prompts, greedy", ylim=(0, 1))
    middle.set(xlabel="step", ylabel="right answers, held-out prompts, greedy", ylim=(0, 1))
    right.set(xlabel="step", ylabel="gradient variance, carms / rloo")
    right.set_ylim(0, max(1.1, right.get_ylim()[1]))
    right.set_xlim(left.get_xlim())
    right.axhline(1, color="#999999", lw=0.8)
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
    left.legend(frameon=False)
    right.legend(frameon=False, loc="lower left")
    return save_figure(figure, out)


def _band(axis: Axes, method: str, runs: Sequence[Metrics], name: str) -> None:
    steps = [row["step"] for row in runs[0]]
    values = [[row[name] for row in rows] for rows in zip(*runs, strict=True)]
    axis.plot(steps, [statistics.mean(row) for row in values], color=_COLOURS[method], label=method)
    low, high = [min(row) for row in values], [max(row) for row in values]
    axis.fill_between(steps, low, high, color=_COLOURS[method], alpha=0.15, lw=0)
