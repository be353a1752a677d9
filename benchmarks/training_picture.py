"""Curves of the training runs at equal steps and at equal time, relative to LOORF."""

import statistics
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from training_results import Line, Runs, leads, runs, seeds_at, times

from carms.lab.figures.axes import plain_steps
from carms.lab.figures.colours import colour

# Kind of line for each number of samples.
DASHES = {10: "-", 6: (0, (5, 1)), 4: "--", 3: "-.", 2: ":"}


def draw(path: Path, networks: tuple[str, ...], last: int, first: int) -> None:
    """Draw two panels for each network, from the step ``first`` on."""
    figure, panels = plt.subplots(
        len(networks), 2, figsize=(11, 8.6), dpi=150, layout="constrained"
    )
    bounds, relative = runs("test_bound"), times()
    for row, network in zip(panels, networks, strict=True):
        for axes, by_time in zip(row, (False, True), strict=True):
            lines = {line: own for line, own in bounds.items() if line[0] == network}
            draw_lines(axes, lines, relative if by_time else None, first)
            plain_steps(axes, last)
            where = "time, in steps of loorf with ten samples" if by_time else "step"
            axes.set(xlabel=where, ylabel="test bound over loorf's (nats)")
            axes.set_title(f"{network}, equal {'time' if by_time else 'steps'}", loc="left")
            axes.grid(alpha=0.2)
            axes.spines[["top", "right"]].set_visible(False)
    # One legend of all lines, below the panels.
    known = {
        text: handle
        for axes in panels.flat
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    texts = sorted(known)
    figure.legend(
        [known[text] for text in texts], texts, loc="outside lower center", frameon=False, ncols=5
    )
    figure.savefig(path)
    print(f"Drawn in {path}")


def draw_lines(
    axes: Axes, lines: dict[Line, Runs], relative: dict[Line, float] | None, first: int
) -> None:
    """Draw all lines over time if ``relative`` has it, else those with ten samples over steps.

    Bounds are relative to loorf with ten samples at the same place, or lines would lie on each
    other.
    """
    for line, own in lines.items():
        network, label, samples = line
        unit = relative.get(line) if relative else 1.0
        if unit is None or (not relative and samples != 10):
            continue
        points = mean_leads(own, lines[network, "loorf", 10], unit, first)
        name, *options = label.split()
        axes.plot(
            [unit * step for step in points],
            [*points.values()],
            linestyle=DASHES[samples],
            marker="." if options else None,
            color=colour(name),
            label=f"{label.replace('coupling=', '')}, N = {samples}",
            lw=1.6,
        )


def mean_leads(own: Runs, reference: Runs, unit: float, first: int) -> dict[int, float]:
    """Mean lead over the reference at the same time, by step from ``first`` on.

    Args:
        own: runs by seed; only seeds that the reference has too are compared.
        reference: runs with which they are compared.
        unit: time of an own step, in steps of the reference.
        first: the first step.
    """
    found = {}
    for step in sorted({step for run in own.values() for step in run if step >= first}):
        values = {seed: run[step] for seed, run in own.items() if step in run}
        differences = leads(values, seeds_at(reference, 1.0, unit * step))
        if differences:
            found[step] = statistics.mean(differences)
    return found
