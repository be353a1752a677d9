"""Means, and differences and ranks by the exact bootstrap over seeds, with their uncertainty."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Literal

import torch
from torch import Tensor

from carms.lab.extras import needed

__all__ = [
    "LEAST_SEEDS",
    "LEVEL",
    "Difference",
    "Mean",
    "Rank",
    "Verdict",
    "estimate_mean",
    "paired_difference",
    "ranks",
]

Verdict = Literal["better", "worse", "not distinguishable", "too few seeds"]

LEVEL = 0.95
# The most seeds whose resamples are all listed: ten have 92,378.
MOST_SEEDS = 10
# Below this number of seeds all may be on one side by chance in more than one case of ten.
LEAST_SEEDS = 5


@dataclass(frozen=True)
class Difference:
    """Mean lead over the reference, positive if better, with the ends of its interval.

    Attributes:
        mean: over seeds.
        low: end of the interval of 95 %.
        high: the other end.
        seeds: number of seeds that both have.
    """

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def verdict(self) -> Verdict:
        """Whether the interval leaves out zero."""
        if self.seeds < LEAST_SEEDS:
            return "too few seeds"
        if self.low <= 0 <= self.high:
            return "not distinguishable"
        return "better" if self.low > 0 else "worse"


@dataclass(frozen=True)
class Rank:
    """Place in a task, 1 for the best, and the ends of its interval of 95 %."""

    place: int
    low: int
    high: int


@dataclass(frozen=True)
class Mean:
    """The mean of some values, and the ends of its interval of 95 %."""

    value: float
    low: float
    high: float


def estimate_mean(values: Sequence[float]) -> Mean:
    """The mean of independent values, with the interval of the t distribution.

    Examples:
        >>> mean = estimate_mean([1.0, 2.0, 3.0])
        >>> mean.value, round(mean.low, 2), round(mean.high, 2)
        (2.0, -0.48, 4.48)
    """
    value = statistics.mean(values)
    width = _quantile(len(values)) * statistics.stdev(values) / len(values) ** 0.5
    return Mean(value, value - width, value + width)


def paired_difference(leads: Tensor) -> Difference:
    """The mean of leads ``[seeds]`` over the reference with the same seeds.

    The interval is the expanded percentile interval of T. Hesterberg (2015), What teachers should
    know about the bootstrap, section 5.3: percentiles of the bootstrap are too narrow for few
    values, and are taken further out, as the t distribution is wider than the normal one.

    Examples:
        >>> found = paired_difference(torch.tensor([1.0, 1.1, 0.9, 1.2, 0.8]))
        >>> round(found.mean, 3), found.verdict
        (1.0, 'better')
    """
    seeds, leads = len(leads), leads.double()
    mean = leads.mean().item()
    if seeds < 2:
        return Difference(mean, -torch.inf, torch.inf, seeds)
    means = _resampled_means(leads)
    # A mean that is zero but for rounding tells nothing apart.
    means = torch.where(means.abs() < _rounding(leads), 0.0, means)
    low, high = _ends(means, seeds)
    return Difference(mean, low, high, seeds)


def ranks(scores: Tensor) -> list[Rank]:
    """Ranks of entries by their mean scores ``[entries, seeds]``, of which the highest is best.

    Their intervals are expanded for few seeds like those of ``paired_difference``.
    Means that are equal but for rounding share the better place. A failed run has the score minus
    infinity: an entry is last in all resamples in which one was drawn.

    Examples:
        >>> ranks(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        [Rank(place=2, low=2, high=2), Rank(place=1, low=1, high=1)]
    """
    scores = scores.double()
    error, means = _rounding(scores), scores.mean(-1)
    resampled = _resampled_means(scores.T).T
    found = []
    for mean, own in zip(means, resampled, strict=True):
        low, high = _ends(1 + (resampled > own + error).sum(0), scores.shape[1])
        found.append(Rank(1 + int((means > mean + error).sum()), int(low), int(high)))
    return found


def _resampled_means(values: Tensor) -> Tensor:
    """Means ``[resamples, ...]`` of values ``[seeds, ...]`` in all resamples of the seeds.

    Examples:
        >>> _resampled_means(torch.tensor([1.0, 3.0])).tolist()
        [1.0, 2.0, 3.0]
    """
    drawn, _ = _resamples(len(values))
    values = values.double()
    failed = values.isneginf()
    # Zero times infinity is not a number: failures are put in afterwards.
    means = drawn @ values.masked_fill(failed, 0.0) / len(values)
    return means.masked_fill(drawn @ failed.double() > 0, -torch.inf)


def _rounding(values: Tensor) -> Tensor:
    """What the means of such values may differ by because of rounding alone."""
    return 1e-12 * values.nan_to_num(neginf=0.0).abs().max()


def _tail(count: int) -> float:
    """The share of resamples beyond each end of an interval, less than 2.5 % for few values."""
    spread = (count / (count - 1)) ** 0.5 * _quantile(count)
    return float(needed("scipy.special").ndtr(-spread))


def _quantile(count: int) -> float:
    """The end of the interval of a t distribution, for the mean of that many values."""
    return float(needed("scipy.special").stdtrit(count - 1, (1 + LEVEL) / 2))


def _ends(values: Tensor, seeds: int) -> tuple[float, float]:
    """The ends of the interval of a statistic with these values ``[resamples]``."""
    _, probability = _resamples(seeds)
    ordered, order = values.sort()
    tail = _tail(seeds)
    outer = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    # The sum of all probabilities may be less than one by rounding.
    places = torch.searchsorted(probability[order].cumsum(0), outer).clamp(max=len(values) - 1)
    low, high = ordered[places].tolist()
    return low, high


@cache
def _resamples(count: int) -> tuple[Tensor, Tensor]:
    """How often each seed is drawn ``[resamples, count]`` in all draws with replacement, and the
    probability of each draw.
    """
    if count > MOST_SEEDS:
        raise ValueError(f"at most {MOST_SEEDS} seeds can be compared, got {count}")
    drawn = torch.tensor([*combinations_with_replacement(range(count), count)])
    times = torch.zeros(drawn.shape, dtype=torch.float64)
    times.scatter_add_(1, drawn, torch.ones_like(times))
    orders = math.lgamma(count + 1) - (times + 1).lgamma().sum(1)
    return times, (orders - count * math.log(count)).exp()
