"""Rewards of policy-gradient runs over their seeds, as numbers and as a picture."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from carms.lab.figures.axes import plain_steps, save_figure
from carms.lab.figures.colours import colour

__all__ = ["draw_rewards", "spread", "steps_to", "variance_ratio"]

Lines = Sequence[Mapping[str, Any]]
"""The lines of metrics of one run."""

# Each method has the colour of the estimator that it is for sequences.
_COLOURS = {"rloo": colour("loorf"), "carms": colour("carms-s")}
_SHARES = {"reward": "Right digits", "solved": "Right answers"}


def steps_to(share: float, runs: Sequence[Lines]) -> list[int | None]:
    """The first logged step at which each run had that reward on held-out prompts; None if never.

    Examples:
        >>> steps_to(0.5, [[{"step": 0, "reward": 0.1}, {"step": 9, "reward": 0.6}], []])
        [9, None]
    """
    return [next((row["step"] for row in run if row["reward"] >= share), None) for run in runs]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation; the deviation of a single value is zero."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def variance_ratio(runs: Sequence[Lines]) -> dict[int, float]:
    """Variance of CARMS' gradient over that of RLOO's at the same parameters, by step.

    Both variances are summed over the runs before they are divided.
    """
    found = {}
    for rows in zip(*runs, strict=True):
        if all("variance_rloo" in row for row in rows):
            independent = sum(row["variance_rloo"] for row in rows)
            if independent > 0:
                found[rows[0]["step"]] = sum(row["variance_carms"] for row in rows) / independent
    return found


def draw_rewards(methods: Mapping[str, Sequence[Lines]], out: Path) -> list[Path]:
    """Draw rewards over steps, mean and range over seeds, and the ratio of variances."""
    figure, panels = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    *shares, right = panels
    for axes, (name, title) in zip(shares, _SHARES.items(), strict=True):
        for method, runs in methods.items():
            _draw_band(axes, method, runs, name)
        axes.set(title=title, ylabel="share, held-out prompts", ylim=(0, 1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    seeds = max(map(len, methods.values()))
    bands = f"mean and range over {seeds} seeds" if seeds > 1 else None
    shares[0].legend(frameon=False, loc="best", title=bands)
    for method, runs in methods.items():
        ratio = variance_ratio(runs)
        # Markers at the edge are drawn whole.
        line = {"color": _COLOURS[method], "marker": ".", "clip_on": False}
        right.plot([*ratio], [*ratio.values()], label=method, **line)
    right.axhline(1, color="#999999", lw=0.8)
    right.set(title="Variance of the gradient", ylabel="carms / rloo, same parameters")
    right.set_ylim(0, max(1.1, right.get_ylim()[1]))
    right.legend(frameon=False, loc="lower left", title="at parameters of a run with")
    figure.suptitle("Learning to add by policy gradient; answers by greedy decoding")
    last = max(run[-1]["step"] for runs in methods.values() for run in runs)
    for axes in panels:
        plain_steps(axes, last)
        axes.grid(alpha=0.3)
    return save_figure(figure, out)


def _draw_band(axes: Axes, method: str, runs: Sequence[Lines], name: str) -> None:
    steps = [row["step"] for row in runs[0]]
    values = [[row[name] for row in rows] for rows in zip(*runs, strict=True)]
    axes.plot(steps, [statistics.mean(row) for row in values], color=_COLOURS[method], label=method)
    low, high = [min(row) for row in values], [max(row) for row in values]
    axes.fill_between(steps, low, high, color=_COLOURS[method], alpha=0.15, lw=0)
