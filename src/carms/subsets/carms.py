"""Negatively correlated draws, corrected pair by pair."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from carms.core.checks.options import probability
from carms.core.transforms import no_transforms
from carms.estimators.carms import CarmsS
from carms.sequences import Rollouts, advantages, rollouts
from carms.subsets.base import Weighting, race
from carms.subsets.by_categories import ByCategories
from carms.subsets.enumeration import count
from carms.subsets.loorf import LeaveOneOut

__all__ = ["Carms", "default_epsilon"]

# Largest number of subsets that become the categories of one variable. If there are more, their
# picks are coupled.
MOST_LISTED = 256
# Number of picks that are coupled. Further ones would divide intervals far below 1 / N.
COUPLED = 3


class Carms(ByCategories):
    """Coupled draws, made unbiased by the ratio of each drawn pair.

    Few subsets (256 at the most) are the categories of one variable, drawn and corrected as by
    ``carms-s``. Rankings, and subsets of which there are more, are sequences of picks whose logits
    leave out what was taken: their first three picks are the coupled rollouts of
    ``carms.sequences``, and the others are independent given those. Unbiased, for any ``f``;
    N evaluations.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 2.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.
        epsilon: probability that the draws of an example are independent after all; it bounds
            every pair ratio by ``1 / epsilon`` and biases nothing. Defaults to what measured best
            for the number of samples and of subsets.

    Examples:
        >>> z = Carms(size=1, samples=8, epsilon=0.0).sample(torch.zeros(1000, 2)).z
        >>> z[..., 0].sum(0).unique()  # eight choices of one of two items take each 3 to 5 times
        tensor([3., 4., 5.])
    """

    name = "carms"

    def __init__(
        self, size: int, samples: int = 8, ordered: bool = False, epsilon: float | None = None
    ) -> None:
        super().__init__(size, samples, ordered)
        if epsilon is not None:
            probability("epsilon", epsilon)
        self.epsilon = epsilon

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Weighting]:
        if not self.ordered and count(logits.shape[-1], self.size, False) <= MOST_LISTED:
            return super()._draw(logits, generator)
        if not logits.numel():  # there are no rollouts of an empty batch
            items = race(logits.expand(self.samples, *logits.shape), self.size, generator)
            return items, LeaveOneOut()
        with no_transforms():
            items, picks = self._picks(logits, generator)
            return items, Picked(picks)

    def _over_categories(self, total: int) -> CarmsS:
        return CarmsS(self.samples, epsilon=self._epsilon(total))

    def _epsilon(self, total: int) -> float:
        return default_epsilon(self.samples, total) if self.epsilon is None else self.epsilon

    def _picks(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Rollouts]:
        *batch, items = logits.shape
        rows = logits.reshape(-1, items)
        coupled = min(self.size, COUPLED)
        # A row for each draw, from which picked items are struck out.
        left = rows.repeat_interleave(self.samples, 0)

        def step(picked: Tensor, cache: None) -> tuple[Tensor, None]:
            return left.scatter_(-1, picked[:, -1:], -torch.inf), cache

        nothing = torch.zeros(len(rows), 0, dtype=torch.long, device=logits.device)
        epsilon = self._epsilon(count(items, self.size, self.ordered))
        group = rollouts(step, nothing, self.samples, coupled, epsilon=epsilon, generator=generator)
        picked = group.tokens.flatten(0, 1)
        if coupled < self.size:
            group = replace(group, complete=False)
            left.scatter_(-1, picked[:, -1:], -torch.inf)
            picked = torch.cat((picked, race(left, self.size - coupled, generator)), -1)
        drawn = picked.unflatten(0, (-1, self.samples)).movedim(1, 0)
        return drawn.reshape(self.samples, *batch, self.size), group


@dataclass(frozen=True)
class Picked(Weighting):
    """Weighs coupled sequences of picks by the advantages of rollouts."""

    rollouts: Rollouts

    def weights(self, fz: Tensor) -> Tensor:
        found = advantages(fz.reshape(len(fz), -1).T, self.rollouts) / len(fz)
        return found.T.reshape(fz.shape)


def default_epsilon(samples: int, total: int) -> float:
    """``M / (10 N^2)``, at most 1/2, for N draws of M subsets or rankings: where they are many,
    draws hardly collide, and coupling them gains nothing that its ratios do not spoil.

    Chosen by ``benchmarks/subsets.py``.

    Examples:
        >>> default_epsilon(8, total=56)
        0.0875
    """
    return min(total, 5 * samples**2) / (10 * samples**2)
