"""Curves and costs of runs, as numbers for the page to draw."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, median
from typing import Any

from carms.lab.figures.figures import PANELS, colour
from carms.lab.report.blocks import Block, headline, variant
from carms.lab.runs.gather import Run

__all__ = ["Panel", "curve", "make_panels"]

# Points of all curves together, which bounds the page; and of one of them.
POINTS = 60_000
POINTS_OF_ONE = 200


@dataclass(frozen=True)
class Panel:
    """What is drawn of runs that may be compared.

    Attributes:
        title: what they are runs of.
        settings: of all of them, where they are not the usual ones.
        runs: how many.
        thinned: logged steps of the longest curve, and how many are drawn; None if all are.
        plots: what ``report.js`` draws.
    """

    title: str
    settings: str
    runs: int
    thinned: tuple[int, int] | None
    plots: Sequence[dict[str, Any]]


def make_panels(blocks: Sequence[Block]) -> list[Panel]:
    """One for each block."""
    curves = len(PANELS) * sum(len(block.groups) for block in blocks)
    limit = min(POINTS_OF_ONE, max(2, POINTS // curves))
    return [_panel(block, limit) for block in blocks]


def _panel(block: Block, limit: int) -> Panel:
    plots, longest = [], 0
    for name, label in PANELS:
        curves = []
        for group, style in zip(block.groups, _styles(block), strict=True):
            steps = sorted({step for run in group for step in run.metrics[name].steps})
            longest = max(longest, len(steps))
            if steps:
                curves.append(style | curve(group, name, _thinned(steps, limit)))
        if curves:
            plots.append({"title": label, "log": name == "gradient_variance", "curves": curves})
    costs = zip(block.groups, _styles(block), strict=True)
    clouds = [style | cloud for group, style in costs if (cloud := _cost(group))["x"]]
    if clouds:
        title = "variance of the logits' gradient, against ms a step"
        plots.append({"title": title, "log": True, "clouds": clouds})
    return Panel(
        *headline(block),
        len(block.runs),
        (longest, limit) if longest > limit else None,
        plots,
    )


def _styles(block: Block) -> list[dict[str, Any]]:
    """Name and colour; lines of the same colour are told apart by a number."""
    seen: Counter[str] = Counter()
    styles = []
    for group in block.groups:
        settings = group[0].settings
        own = colour(settings.estimator)
        # Plotly reads markup in names.
        name = escape(variant(settings), quote=False)
        styles.append({"name": name, "colour": own, "dash": seen[own]})
        seen[own] += 1
    return styles


def curve(group: Sequence[Run], name: str, steps: Sequence[int]) -> dict[str, Any]:
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
    """Evenly, with the first and the last."""
    if len(steps) <= limit:
        return steps
    return [steps[i * (len(steps) - 1) // (limit - 1)] for i in range(limit)]


def _cost(group: Sequence[Run]) -> dict[str, Any]:
    """A point for each run: the medians of its step times, and of the later half of variances."""
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
    """Six digits, more than a picture shows."""
    return float(f"{value:.6g}")
