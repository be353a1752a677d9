"""Curves of runs, as a picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from carms.lab.figures.axes import plain_log_axis, plain_steps, save_figure
from carms.lab.figures.labels import CURVES, CurveLabel
from carms.lab.report.blocks import Block, headline
from carms.lab.report.plots import curve, logged_steps, styles
from carms.lab.runs.printable import printable

__all__ = ["draw_curves"]

_DASHES = ("-", "--", ":", "-.")
# Letters of a title, of a name in a legend, and of a whole line of names.
TITLE, NAME, LINE = 120, 60, 120
BANDS = "line: mean over seeds; band: from the lowest to the highest seed"


def draw_curves(blocks: Sequence[Block], out: Path) -> list[Path]:
    """Draw metrics over steps: a row for each block, a line for each of its groups of runs, and a
    band for a group of several seeds.
    """
    runs = [run for block in blocks for run in block.runs]
    labels = [label for label in CURVES if any(run.metrics[label.metric].steps for run in runs)]
    if not labels:
        raise ValueError("there is nothing to draw: no run has logged anything yet")
    heights = [4 + 0.23 * -(-len(block.groups) // _columns(block)) for block in blocks]
    figure = plt.figure(figsize=(4.2 * len(labels), sum(heights)), layout="constrained")
    rows = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for block, row in zip(blocks, rows, strict=True):
        _draw_row(row, block, labels)
    return save_figure(figure, out)


def _draw_row(figure: SubFigure, block: Block, labels: Sequence[CurveLabel]) -> None:
    title, settings = (_literal(text, TITLE) for text in headline(block))
    figure.suptitle("\n".join(filter(None, (title, settings))))
    panels = figure.subplots(1, len(labels), squeeze=False)[0]
    last = max(run.step for run in block.runs)
    for axes, label in zip(panels, labels, strict=True):
        _draw_lines(axes, block, label.metric)
        if not axes.lines:
            axes.set_visible(False)
            continue
        axes.set_title(label.title, size="medium")
        axes.set_ylabel(label.axis)
        plain_steps(axes, last or 1)
        axes.grid(alpha=0.3)
        if label.log and any(max(line.get_ydata()) > 0 for line in axes.lines):
            plain_log_axis(axes)
        else:
            axes.ticklabel_format(axis="y", useOffset=False)
    several = any(len(group) > 1 for group in block.groups)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=_columns(block),
        frameon=False,
        title=BANDS if several else None,
    )


def _columns(block: Block) -> int:
    """Number of names that fit beside each other."""
    longest = max(len(_literal(style.name, NAME)) for style in styles(block))
    return min(len(block.groups), LINE // (longest + 6))


def _draw_lines(axes: Axes, block: Block, metric: str) -> None:
    for group, style in zip(block.groups, styles(block), strict=True):
        steps = logged_steps(group, metric)
        if not steps:
            continue
        found, own = curve(group, metric, steps), style.colour
        dash, name = _DASHES[style.dash % len(_DASHES)], _literal(style.name, NAME)
        # A line through one point is invisible.
        marker = "o" if len(steps) == 1 else ""
        axes.plot(found["x"], found["y"], dash + marker, color=own, label=name, clip_on=not marker)
        if len(group) > 1:
            axes.fill_between(found["x"], found["low"], found["high"], color=own, alpha=0.15, lw=0)


def _literal(text: str, limit: int) -> str:
    """Text that Matplotlib does not read as mathematics."""
    return printable(text, limit).replace("$", r"\$")
