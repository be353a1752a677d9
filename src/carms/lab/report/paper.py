"""The tables of the paper."""

import csv
from dataclasses import dataclass
from functools import cache

from carms.lab.report.assets import read_asset
from carms.lab.runs.settings import Settings

__all__ = ["Cell", "cells", "printed"]


@dataclass(frozen=True)
class Cell:
    """A log likelihood as printed: mean and deviation of five runs of 10^6 steps.

    The paper prints those of the completion task without their sign.
    """

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} +- {self.deviation:.2f}"


def printed(settings: Settings, part: str) -> Cell | None:
    """The paper's cell for these settings and ``part``, train or test; None if it has none.

    Examples:
        >>> str(printed(Settings(network="linear", categories=3, estimator="loorf"), "train"))
        '-105.64 +- 0.23'
    """
    latents = settings.latents in (None, settings.usual_latents)
    samples = settings.samples in (None, settings.usual_samples)
    if not latents or not samples or settings.options:
        return None
    # The paper has Omniglot mirrored at its diagonal, so that its upper half is another one.
    if settings.task == "complete" and settings.dataset == "omniglot" and settings.upright:
        return None
    return cells().get(
        (
            settings.task,
            part,
            settings.dataset,
            settings.network,
            settings.categories,
            settings.estimator,
        )
    )


@cache
def cells() -> dict[tuple[str, str, str, str, int, str], Cell]:
    """All cells by task, part, data set, network, categories and estimator."""
    text = read_asset("paper.csv")
    cells = {}
    for row in csv.DictReader(text.splitlines()):
        sign = -1 if row["task"] == "complete" else 1
        key = row["task"], row["part"], row["dataset"], row["network"]
        mean, deviation = sign * float(row["mean"]), float(row["deviation"])
        cells[*key, int(row["categories"]), row["estimator"]] = Cell(mean, deviation)
    return cells
