"""Print the rewards that policy gradients reached."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import print_table
from carms.lab.figures.rewards import spread, steps_to, variance_ratio

__all__ = ["print_rewards"]

# Rewards on held-out prompts, of which a table says when they were reached.
GOALS = (0.5, 0.8)
EXPLANATION = (
    "right digits and answers, mean +- deviation over seeds; median of the steps to a share of "
    "right digits (and how many seeds got there); processor time of a step; ratio of the variance "
    "of carms' gradient to that of rloo's at the same parameters, mean over training"
)

RunsByMethod = Mapping[str, Sequence[Any]]
"""Lines of metrics of each run, by method."""


def print_rewards(console: Console, metrics: RunsByMethod, title: str) -> None:
    """Print a table of the methods, what its columns mean, and the difference of the methods."""
    print_table(console, _table(metrics, title))
    console.print(EXPLANATION, highlight=False, soft_wrap=False)
    _print_difference(console, metrics)


def _table(metrics: RunsByMethod, title: str) -> Table:
    """Means over seeds, with standard deviations; steps to a reward as medians."""
    table = Table(title=f"{title}; held-out prompts, greedy decoding")
    table.add_column("method")
    headings = ["digits, %", "answers, %", *[f"to {goal:.0%}" for goal in GOALS], "ms", "ratio"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for method, runs in metrics.items():
        cells = []
        for name in ("reward", "solved"):
            mean, deviation = spread([run[-1][name] for run in runs])
            spread_of_seeds = f" +- {100 * deviation:.1f}" if len(runs) > 1 else ""
            cells.append(f"{100 * mean:.1f}{spread_of_seeds}")
        cells += [_steps_cell(steps_to(goal, runs)) for goal in GOALS]
        spent = statistics.median(row["milliseconds"] for run in runs for row in run[1:])
        cells.append(f"{spent:.1f}")
        ratios = variance_ratio(runs)
        cells.append(f"{statistics.mean(ratios.values()):.2f}" if ratios else "-")
        table.add_row(method, *cells)
    return table


def _steps_cell(steps: Sequence[int | None]) -> str:
    """The median, where runs that never got there come last, and how many runs did."""
    reached = [step for step in steps if step is not None]
    middle = statistics.median([float("inf") if step is None else step for step in steps])
    text = f"{middle:.0f}" if middle < float("inf") else "never"
    return f"{text} ({len(reached)}/{len(steps)})"


def _print_difference(console: Console, metrics: RunsByMethod) -> None:
    """Compare the methods seed by seed, if there are two methods and several seeds."""
    if len(metrics) < 2 or len(metrics["rloo"]) < 2:
        return
    pairs = [*zip(metrics["carms"], metrics["rloo"], strict=True)]
    for what, value in (
        ("right digits", lambda run: run[-1]["reward"]),
        ("right answers", lambda run: run[-1]["solved"]),
        ("right digits, mean over training", _mean_reward),
    ):
        mean, deviation = spread([value(carms) - value(rloo) for carms, rloo in pairs])
        error = deviation / len(pairs) ** 0.5
        console.print(
            f"carms - rloo with the same seed, {what}: {100 * mean:+.1f} points, "
            f"standard error {100 * error:.1f}",
            highlight=False,
        )


def _mean_reward(run: Sequence[Mapping[str, Any]]) -> float:
    return float(statistics.mean(row["reward"] for row in run))
