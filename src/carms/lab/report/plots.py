"""Curves and costs of runs, as numbers for the page to draw."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, median
from typing import Any, NamedTuple

from carms.lab.figures.colours import colour
from carms.lab.figures.labels import CURVES, CurveLabel
from carms.lab.report.blocks import Block, headline, variant
from carms.lab.runs.gather import RecordedRun

__all__ = ["Panel", "Style", "curve", "logged_steps", "make_panels", "styles"]

# Most points of all curves together, which bounds the size of the page, and of one curve.
POINTS = 60_000
POINTS_OF_ONE = 200


class Style(NamedTuple):
    """How a group of runs is drawn; ``dash`` is the number of a kind of line or mark."""

    name: str
    colour: str
    dash: int


@dataclass(frozen=True)
class Panel:
    """Plots of the runs of a block.

    Attributes:
        title: task, data set, network and categories.
        settings: the settings of all its runs that do not have their default values.
        runs: the number of runs.
        thinned: logged steps of the longest curve, and how many are drawn; None if all are.
        plots: what ``report.js`` draws.
    """

    title: str
    settings: str
    runs: int
    thinned: tuple[int, int] | None
    plots: Sequence[dict[str, Any]]


def make_panels(blocks: Sequence[Block]) -> list[Panel]:
    """Make a panel for each block."""
    curves = len(CURVES) * sum(len(block.groups) for block in blocks)
    limit = min(POINTS_OF_ONE, max(2, POINTS // curves))
    return [_panel(block, limit) for block in blocks]


def _panel(block: Block, limit: int) -> Panel:
    plots = [_curve_plot(block, label, limit) for label in CURVES] + [_cost_plot(block)]
    longest = max(
        len(logged_steps(group, label.metric)) for group in block.groups for label in CURVES
    )
    return Panel(
        *headline(block),
        len(block.runs),
        (longest, limit) if longest > limit else None,
        [plot for plot in plots if plot["traces"]],
    )


def _curve_plot(block: Block, label: CurveLabel, limit: int) -> dict[str, Any]:
    curves = []
    for group, style in zip(block.groups, styles(block), strict=True):
        steps = _thinned(logged_steps(group, label.metric), limit)
        if steps:
            curves.append(_json(style) | curve(group, label.metric, steps))
    last = max(run.step for run in block.runs)
    axes = {"x": "step", "y": label.axis, "range": [0, last], "log": label.log}
    return {"kind": "curves", "title": label.title, **axes, "traces": curves}


def _cost_plot(block: Block) -> dict[str, Any]:
    costs = zip(block.groups, styles(block), strict=True)
    clouds = [_json(style) | cloud for group, style in costs if (cloud := _cost(group))["x"]]
    title = "Variance of the logits' gradient against time"
    axes = {"x": "milliseconds of a step", "y": "variance", "log": True}
    return {"kind": "clouds", "title": title, **axes, "traces": clouds}


def styles(block: Block) -> list[Style]:
    """Style of each group; those with the same colour have different dashes."""
    seen: Counter[str] = Counter()
    found = []
    for group in block.groups:
        settings = group[0].settings
        own = colour(settings.estimator)
        found.append(Style(variant(settings), own, seen[own]))
        seen[own] += 1
    return found


def _json(style: Style) -> dict[str, Any]:
    # Plotly reads markup in names.
    return style._asdict() | {"name": escape(style.name, quote=False)}


def logged_steps(group: Sequence[RecordedRun], metric: str) -> list[int]:
    """Steps at which any of the runs has logged a metric."""
    return sorted({step for run in group for step in run.metrics[metric].steps})


def curve(group: Sequence[RecordedRun], name: str, steps: Sequence[int]) -> dict[str, Any]:
    """Mean, lowest, highest and number of the seeds that have logged each step."""
    wanted = set(steps)
    found: dict[int, list[float]] = defaultdict(list)
    for run in group:
        for step, value in zip(*run.metrics[name], strict=True):
            if step in wanted:
                found[step].append(value)
    values = [found[step] for step in steps]
    curve: dict[str, Any] = {"x": steps, "y": [_short(fmean(v)) for v in values]}
    if len(group) > 1:
        curve["low"] = [_short(min(v)) for v in values]
        curve["high"] = [_short(max(v)) for v in values]
        curve["seeds"] = [len(v) for v in values]
    return curve


def _thinned(steps: Sequence[int], limit: int) -> Sequence[int]:
    """At most ``limit`` of the steps, evenly spaced, with the first and the last."""
    if len(steps) <= limit:
        return steps
    return [steps[i * (len(steps) - 1) // (limit - 1)] for i in range(limit)]


def _cost(group: Sequence[RecordedRun]) -> dict[str, Any]:
    """A point for each run: the median time of its steps, and that of the later variances."""
    cloud: dict[str, Any] = {"x": [], "y": [], "text": [], "partial": []}
    for run in group:
        variances = run.metrics["gradient_variance"].values
        if variances and run.milliseconds is not None:
            cloud["x"].append(_short(run.milliseconds))
            cloud["y"].append(_short(median(variances[len(variances) // 2 :])))
            at = f"step {run.step:,} of {run.settings.steps:,}"
            cloud["text"].append(escape(f"seed {run.settings.seed}, {at}", quote=False))
            cloud["partial"].append(run.result is None)
    return cloud


def _short(value: float) -> float:
    """Round to six digits, more than a picture shows."""
    return float(f"{value:.6g}")
