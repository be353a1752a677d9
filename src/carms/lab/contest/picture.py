"""The picture of the contest: score against time."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carms.lab.contest.standings import Standing, curve
from carms.lab.contest.task import Task
from carms.lab.figures.colours import colour

__all__ = ["coloured_names", "draw_contest", "inks_of_panels"]

COLUMNS = 3
# Number of entries that have a colour in a panel beside the reference: the best at equal time; one
# more, if no unbiased one is among them.
COLOURED = 5
BLACK, GREY = "#000000", "#C4C4C4"
# Colours that can be told apart, for entries whose own is taken in one of their panels.
SPARE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#9C6B3C", "#7080D8", "#AA4499")
# Colours nearer than this, of red, green and blue from 0 to 255, look alike as thin lines.
ALIKE = 90
# A panel is as high as the coloured entries need from this share of the reference's time on: the
# scores of the first steps would leave no room for the differences between the later ones.
SHOWN_FROM = 0.15


def draw_contest(tasks: Sequence[Task], standings: Mapping[str, Sequence[Standing]]) -> bytes:
    """Draw a panel for each task, the mean score over seeds against processor time, as PNG."""
    rows = max(1, -(-len(tasks) // COLUMNS))
    figure = Figure(figsize=(13, 4 * rows), dpi=110, layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in panels.flat[len(tasks) :]:
        axes.set_visible(False)
    coloured = [coloured_names(task, standings[task.name]) for task in tasks]
    inks = inks_of_panels(coloured)
    for axes, task, names in zip(panels.flat, tasks, coloured, strict=False):
        _draw_panel(axes, task, standings[task.name], {name: inks[name] for name in names})
    contents = BytesIO()
    figure.savefig(contents, format="png")
    return contents.getvalue()


def inks_of_panels(panels: Sequence[Sequence[str]]) -> dict[str, str]:
    """A colour for each name: the same in all panels, and not like those of all names that share a
    panel with it, as long as there are enough colours. The first of a panel is black.

    Examples:
        >>> inks = inks_of_panels([["loorf", "arms", "disarm"], ["rloo", "disarm", "ridge"]])
        >>> inks["loorf"], inks["rloo"], len({inks["arms"], inks["disarm"], inks["ridge"]})
        ('#000000', '#000000', 3)
    """
    inks = {panel[0]: BLACK for panel in panels}
    for name in dict.fromkeys(chain(*panels)):
        if name in inks:
            continue
        beside = {other for panel in panels if name in panel for other in panel}
        taken = [inks[other] for other in beside if other in inks]
        own = colour(name)
        free = [ink for ink in (own, *SPARE) if ink not in taken]
        unlike = [ink for ink in free if all(_distance(ink, other) > ALIKE for other in taken)]
        inks[name] = next(iter([*unlike, *free, own]))
    return inks


def _distance(ink: str, other: str) -> float:
    """How far two colours are apart."""
    return math.dist(bytes.fromhex(ink[1:]), bytes.fromhex(other[1:]))


def coloured_names(task: Task, standings: Sequence[Standing]) -> list[str]:
    """The reference, the best at equal time, and the best that is unbiased."""
    places = {
        each.entry: each.at_time.rank.place
        for each in standings
        if each.at_time.rank and each.entry.name != task.reference
    }
    ordered = sorted(places, key=places.__getitem__)
    best = ordered[:COLOURED]
    if not any(entry.unbiased for entry in best):
        best += [entry for entry in ordered if entry.unbiased][:1]
    return [task.reference, *(entry.name for entry in best)]


def _draw_panel(
    axes: Axes, task: Task, standings: Sequence[Standing], inks: Mapping[str, str]
) -> None:
    """Draw all entries: those that have an ink above the others, which are grey. Biased ones are
    dashed.
    """
    biased = {each.entry.name for each in standings if not each.entry.unbiased}
    curves = {each.entry.name: curve(task, each) for each in standings}
    curves = {name: points for name, points in curves.items() if points}
    for name, points in curves.items():
        times, scores = zip(*points, strict=True)
        if name in inks:
            style = (0, (4, 1.5)) if name in biased else "-"
            axes.plot(times, scores, color=inks[name], lw=1.6, ls=style, label=name, zorder=3)
        else:
            axes.plot(times, scores, color=GREY, lw=0.8)
    if task.reference in curves:
        axes.axvline(1, color=BLACK, lw=0.6, ls=":")
        axes.set_xlim(0, 2)
        coloured = chain(*(points for name, points in curves.items() if name in inks))
        shown = [score for time, score in coloured if SHOWN_FROM <= time <= 2]
        margin = (max(shown) - min(shown)) / 20 or 1
        axes.set_ylim(min(shown) - margin, max(shown) + margin)
    if not curves:
        axes.text(0.5, 0.5, "no times yet", transform=axes.transAxes, ha="center")
    axes.set_title(task.name, loc="left")
    measure = task.measure.split(",")[0] + ("" if task.higher_wins else ", lower is better")
    axes.set(xlabel=f"processor time of training, in runs of {task.reference}", ylabel=measure)
    axes.yaxis.label.set_fontsize(8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            # The corner in which the best curves do not end.
            loc="lower right" if task.higher_wins else "upper right",
            fontsize=8,
            framealpha=0.85,
            edgecolor="none",
            borderpad=0.2,
        )
