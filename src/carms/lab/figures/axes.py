"""What the figures have in common: plain ticks, and how they are saved."""

from io import BytesIO
from math import log10
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.ticker import Locator, LogLocator, MaxNLocator

from carms.lab.runs.writing import check_writable, write_atomically

__all__ = ["picture_paths", "plain_log_axis", "plain_steps", "save_figure"]

_SUFFIXES = (".png", ".svg")


def plain_steps(axes: Axes, last: int) -> None:
    """Let the horizontal axis go from 0 to the step ``last``, with whole numbers as labels."""
    axes.set(xlabel="step", xlim=(0, last))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 2.5, 5, 10), integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def plain_log_axis(axes: Axes) -> None:
    """Make the vertical axis logarithmic, and label it with numbers instead of powers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = log10(high) - log10(low)
    locator: Locator = LogLocator(subs=(1, 2, 5)) if decades < 3 else LogLocator(numticks=6)
    if decades < 1:
        locator = MaxNLocator(5)
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()


def picture_paths(out: Path) -> list[Path]:
    """The paths of a picture as PNG and as SVG; an error if they cannot be written."""
    if out.name in ("", ".."):
        raise ValueError(f"out must name a picture to write, got {str(out)!r}")
    suffix = out.suffix.lower()
    if suffix not in _SUFFIXES and suffix[1:] in FigureCanvasBase.filetypes:
        raise ValueError(f"pictures are written as {' and '.join(_SUFFIXES)}, got {str(out)!r}")
    stem = out.with_suffix("") if suffix in _SUFFIXES else out
    paths = [stem.with_name(stem.name + suffix) for suffix in _SUFFIXES]
    for path in paths:
        check_writable(path)
    return paths


def save_figure(figure: Figure, out: Path) -> list[Path]:
    """Write a figure as PNG and as SVG, close it, and return both paths."""
    paths = picture_paths(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        contents = BytesIO()
        figure.savefig(contents, format=path.suffix[1:], dpi=150)
        write_atomically(path, contents.getvalue())
    plt.close(figure)
    return paths
