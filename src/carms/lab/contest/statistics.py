"""Differences and ranks with their uncertainty, by bootstrap over seeds."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from carms.lab.extras import needed

__all__ = ["Difference", "Rank", "Verdict", "paired_difference", "ranks"]

Verdict = Literal["better", "worse", "not distinguishable"]

LEVEL = 0.95
RESAMPLES = 10_000
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
        """Whether the interval leaves out zero; nothing is told apart by fewer than five seeds."""
        if self.seeds < LEAST_SEEDS or self.low <= 0 <= self.high:
            return "not distinguishable"
        return "better" if self.mean > 0 else "worse"


@dataclass(frozen=True)
class Rank:
    """Place in a task, 1 for the best, and the ends of its interval of 95 %."""

    place: int
    low: int
    high: int


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
    tail = _tail(seeds)
    means = leads[_resamples(seeds)].mean(-1)
    # A mean that is zero but for rounding tells nothing apart.
    means = torch.where(means.abs() < _rounding(leads), 0.0, means)
    low, high = means.quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return Difference(mean, low, high, seeds)


def ranks(scores: Tensor) -> list[Rank]:
    """Ranks of entries by their mean scores ``[entries, seeds]``, of which the highest is best.

    Their intervals are expanded for few seeds like those of ``paired_difference``.
    Means that are equal but for rounding share the better place; a failed run has the score minus
    infinity.

    Examples:
        >>> ranks(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        [Rank(place=2, low=2, high=2), Rank(place=1, low=1, high=1)]
    """
    scores = scores.double()
    resampled = scores[:, _resamples(scores.shape[1])].mean(-1)
    error = _rounding(scores)
    places = torch.stack([1 + (resampled > own + error).sum(0) for own in resampled]).double()
    tail = _tail(scores.shape[1])
    outer = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = places.quantile(outer, dim=1, interpolation="nearest").long().tolist()
    means = scores.mean(-1)
    own = [1 + int((means > mean + error).sum()) for mean in means]
    return [Rank(*each) for each in zip(own, low, high, strict=True)]


def _rounding(values: Tensor) -> Tensor:
    """What the means of such values may differ by because of rounding alone."""
    return 1e-12 * values.nan_to_num(neginf=0.0).abs().max()


def _tail(count: int) -> float:
    """The share of resamples beyond each end of an interval, less than 2.5 % for few values."""
    special = needed("scipy.special")
    spread = (count / (count - 1)) ** 0.5 * special.stdtrit(count - 1, (1 + LEVEL) / 2)
    return float(special.ndtr(-spread))


def _resamples(count: int) -> Tensor:
    """``[RESAMPLES, count]`` seeds drawn with replacement, always the same."""
    stream = torch.Generator().manual_seed(count)
    return torch.randint(count, (RESAMPLES, count), generator=stream)
