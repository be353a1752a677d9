"""Time against variance, every estimator a labelled point."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

# Okabe and Ito's colours, told apart by everybody.
COLOURS = {
    "unbiased, any f": "#0072B2",
    "unbiased, uses the gradient of f": "#009E73",
    "biased": "#D55E00",
}
TITLE = "The lower the better, the further left the cheaper"
# Where a label may be, seen from its point.
SIDES = [(1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (0.7, -0.7), (-0.7, 0.7), (-0.7, -0.7)]


class Point(Protocol):
    """An estimator in the picture; time and variance are relative to LOORF."""

    label: str
    time: float | None
    variance: float

    @property
    def kind(self) -> str:
        """One of ``COLOURS``."""


def kind_of(unbiased: bool, black_box: bool) -> str:
    if not unbiased:
        return "biased"
    return "unbiased, any f" if black_box else "unbiased, uses the gradient of f"


def place_labels(axes: Axes, rows: Sequence[Point]) -> None:
    """Put each name at the nearest place around its point that is free."""
    points = [axes.transData.transform((row.time, row.variance)) for row in rows]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in points]
    renderer = axes.figure.canvas.get_renderer()
    for row in rows:
        label = axes.annotate(
            row.label,
            (row.time, row.variance),
            (0, 0),
            textcoords="offset points",
            va="center",
            zorder=2,
            fontsize=9,
            color=COLOURS[row.kind],
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.5, "shrinkB": 5},
        )
        label.set_in_layout(False)
        for distance, (across, up) in product(range(8, 80, 8), SIDES):
            side = "center" if across == 0 else "left" if across > 0 else "right"
            label.set(position=(across * distance, up * distance), ha=side)
            label.update_positions(renderer)
            box = Text.get_window_extent(label, renderer)
            inside = axes.bbox.containsx(box.x0) and axes.bbox.containsx(box.x1)
            if inside and not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)


def draw(rows: Sequence[Point], path: Path, times: str, title: str = TITLE) -> None:
    """Save the picture; ``times`` says which time the horizontal axis has."""
    figure, axes = plt.subplots(figsize=(10, 7), dpi=150, layout="constrained")
    for kind, colour in COLOURS.items():
        shown = [row for row in rows if row.kind == kind]
        axes.scatter(
            [row.time for row in shown],
            [row.variance for row in shown],
            s=25,
            color=colour,
            label=kind,
            zorder=3,
        )
    axes.axhline(1, color="#999999", lw=0.7)
    axes.axvline(1, color="#999999", lw=0.7)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=times,
        ylabel="variance at equal evaluations / that of loorf",
        title=title,
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.margins(x=0.08)
    axes.grid(alpha=0.2)
    axes.legend(ncols=3, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    figure.canvas.draw()
    place_labels(axes, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
