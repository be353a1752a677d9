"""Curves of the training runs at equal steps and at equal time, relative to LOORF."""

import statistics
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from training_results import Curve, Line, at_time, curves, times

from carms.lab.figures.axes import plain_steps
from carms.lab.figures.colours import colour

# Kind of line for each number of samples.
DASHES = {10: "-", 6: (0, (5, 1)), 4: "--", 3: "-.", 2: ":"}


def draw(path: Path, networks: tuple[str, ...], last: int, first: int) -> None:
    """Draw two panels for each network, from the step ``first`` on."""
    figure, panels = plt.subplots(
        len(networks), 2, figsize=(11, 8.6), dpi=150, layout="constrained"
    )
    bounds, relative = curves("test_bound"), times()
    for row, network in zip(panels, networks, strict=True):
        for axes, by_time in zip(row, (False, True), strict=True):
            lines = {line: curve for line, curve in bounds.items() if line[0] == network}
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
    axes: Axes, lines: dict[Line, Curve], relative: dict[Line, float] | None, first: int
) -> None:
    """Draw all lines over time if ``relative`` has it, else those with ten samples over steps.

    Bounds are relative to loorf with ten samples at the same place, or lines would lie on each
    other.
    """
    for line, curve in lines.items():
        network, label, samples = line
        unit = relative.get(line) if relative else 1.0
        if unit is None or (not relative and samples != 10):
            continue
        steps = [step for step in sorted(curve) if step >= first]
        reference = lines[network, "loorf", 10]
        up = [
            statistics.mean(curve[step]) - (at_time(reference, 1.0, unit * step) or float("nan"))
            for step in steps
        ]
        name, *options = label.split()
        axes.plot(
            [unit * step for step in steps],
            up,
            linestyle=DASHES[samples],
            marker="." if options else None,
            color=colour(name),
            label=f"{label.replace('coupling=', '')}, N = {samples}",
            lw=1.6,
        )
