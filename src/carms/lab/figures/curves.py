"""Curves of runs, as a picture."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from carms.lab.figures.figures import PANELS, colour, save_figure
from carms.lab.report.blocks import Block, headline, variant
from carms.lab.report.plots import curve
from carms.lab.runs.printable import printable

__all__ = ["draw_curves"]

_DASHES = ("-", "--", ":", "-.")
# Letters of a title and of a name in a legend.
TITLE, NAME = 120, 60


def draw_curves(blocks: Sequence[Block], out: Path) -> list[Path]:
    """Metrics over steps: a row for each block, a line for each of its estimators, and a band where
    it has several seeds.
    """
    runs = [run for block in blocks for run in block.runs]
    panels = [panel for panel in PANELS if any(run.metrics[panel[0]].steps for run in runs)]
    if not panels:
        raise ValueError("there is nothing to draw: no run has logged anything yet")
    size = (4.6 * len(panels), 3.8 * len(blocks))
    figure, rows = plt.subplots(
        len(blocks), len(panels), figsize=size, layout="constrained", squeeze=False
    )
    for block, axes in zip(blocks, rows, strict=True):
        for axis, (name, label) in zip(axes, panels, strict=True):
            _draw(axis, block, name, label)
        if axes[0].lines:
            axes[0].legend(frameon=False)
        if len(blocks) > 1:
            title = ", ".join(filter(None, headline(block)))
            axes[0].set_title(_literal(title, TITLE), loc="left")
    return save_figure(figure, out)


def _literal(text: str, limit: int) -> str:
    """Text in which nothing is mathematics to Matplotlib."""
    return printable(text, limit).replace("$", r"\$")


def _draw(axis: Axes, block: Block, name: str, label: str) -> None:
    seen: Counter[str] = Counter()
    positive = False
    for group in block.groups:
        settings = group[0].settings
        own = colour(settings.estimator)
        dash = _DASHES[seen[own] % len(_DASHES)]
        seen[own] += 1
        steps = sorted({step for run in group for step in run.metrics[name].steps})
        if not steps:
            continue
        found = curve(group, name, steps)
        positive |= max(found["y"]) > 0
        axis.plot(found["x"], found["y"], dash, color=own, label=_literal(variant(settings), NAME))
        if len(group) > 1:
            axis.fill_between(found["x"], found["low"], found["high"], color=own, alpha=0.15, lw=0)
    axis.set(xlabel="step", ylabel=label)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    if name == "gradient_variance" and positive:
        axis.set_yscale("log")
