"""The picture of the contest: score against time."""

from collections.abc import Mapping, Sequence
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carms.lab.contest.standings import Standing, curve
from carms.lab.contest.task import Task

__all__ = ["draw_contest"]

COLUMNS = 3
# Entries that have a colour in a panel beside the reference: the best at equal time.
COLOURED = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")


def draw_contest(tasks: Sequence[Task], standings: Mapping[str, Sequence[Standing]]) -> bytes:
    """Draw a panel for each task, the mean score over seeds against processor time, as PNG."""
    rows = max(1, -(-len(tasks) // COLUMNS))
    figure = Figure(figsize=(13, 4 * rows), dpi=110, layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in panels.flat[len(tasks) :]:
        axes.set_visible(False)
    for axes, task in zip(panels.flat, tasks, strict=False):
        _draw_panel(axes, task, standings[task.name])
    contents = BytesIO()
    figure.savefig(contents, format="png")
    return contents.getvalue()


def _draw_panel(axes: Axes, task: Task, standings: Sequence[Standing]) -> None:
    """Draw all entries: the reference black, the best in colours, the others grey."""
    ranked = [each for each in standings if each.at_time.rank and each.entry.name != task.reference]
    ranked.sort(key=lambda each: each.at_time.rank.place if each.at_time.rank else 0)
    colours = {each.entry.name: ink for each, ink in zip(ranked, COLOURED, strict=False)}
    colours[task.reference] = "#000000"
    for each in standings:
        name, points = each.entry.name, curve(task, each)
        ink = colours.get(name)
        across, up = ([point[k] for point in points] for k in range(2))
        label = name if ink and points else None
        axes.plot(across, up, color=ink or "#C4C4C4", lw=1.6 if ink else 0.8, label=label)
        if points and name == task.reference:
            axes.axvline(across[-1], color="#000000", lw=0.6, ls=":")
            axes.set_xlim(0, 2 * across[-1])
    axes.set_title(task.name, loc="left")
    axes.set(xlabel="processor time of training, seconds", ylabel=task.measure.split(",")[0])
    axes.yaxis.label.set_fontsize(8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
