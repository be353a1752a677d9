"""Curves of the training runs at equal steps and at equal time, relative to LOORF."""

import statistics
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from training_results import Line, Runs, best_lines, bounds_at, leads, runs, seeds_at, times

from carms.lab.figures.axes import plain_steps
from carms.lab.figures.colours import colour

# Kind of line for each number of samples.
DASHES = {10: "-", 6: (0, (5, 1)), 4: "--", 3: "-.", 2: ":"}


def draw(path: Path, networks: tuple[str, ...], budget: float, last: int, first: int) -> None:
    """Draw two panels for each network, from the step ``first`` on.

    At equal steps all estimators have ten samples. At equal time each has the number that is best
    after the time of ``budget`` steps of loorf.
    """
    figure, panels = plt.subplots(
        len(networks), 2, figsize=(11, 8.2), dpi=150, layout="constrained"
    )
    bounds, at_budget = runs("test_bound"), bounds_at(budget)
    relative = {line: time.value for line, time in times().items()}
    for row, network in zip(panels, networks, strict=True):
        ten = [line for line in bounds if line[0] == network and line[2] == 10]
        best = best_lines(at_budget, network)
        draw_lines(row[0], {line: bounds[line] for line in ten}, dict.fromkeys(ten, 1.0), first)
        draw_lines(row[1], {line: bounds[line] for line in best.values()}, relative, first)
        plain_steps(row[0], last)
        plain_steps(row[1], round(1.2 * budget))
        row[0].set_xlabel("step")
        row[1].set_xlabel("time, in steps of loorf with ten samples")
        for axes, when in zip(row, ("steps", "time"), strict=True):
            axes.set_ylabel("test bound over loorf's (nats)")
            axes.set_title(f"{network}, equal {when}", loc="left")
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
    axes: Axes, lines: dict[Line, Runs], relative: Mapping[Line, float], first: int
) -> None:
    """Draw leads over loorf, of which there is one line, against time, or against steps if these
    take the same time.
    """
    (reference,) = (line for line in lines if line[1] == "loorf")
    for line, own in lines.items():
        _, label, samples = line
        points = mean_leads(own, lines[reference], relative[line] / relative[reference], first)
        name, *options = label.split()
        axes.plot(
            [relative[line] * step for step in points],
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
