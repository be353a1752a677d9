"""Leave-one-out REINFORCE on independent draws."""

import torch
from torch import Tensor

from carms.core.means import less_mean
from carms.subsets.base import ScoreFunction, Weighting, race

__all__ = ["LeaveOneOut", "Loorf"]


class Loorf(ScoreFunction):
    """Independent draws, each with the mean of the others as its baseline.

    Unbiased, for any ``f`` and any n and k; N evaluations.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 2.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    References:
        Kool, van Hoof and Welling (2019) [kool2019buy]

    Examples:
        >>> estimator = Loorf(size=2, samples=4, ordered=True)
        >>> draw = estimator.sample(torch.zeros(50, requires_grad=True))
        >>> draw.z.shape  # the first two of fifty items, in order of rank
        torch.Size([4, 2])
    """

    name = "loorf"

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Weighting]:
        items = race(logits.expand(self.samples, *logits.shape), self.size, generator)
        return items, LeaveOneOut()


class LeaveOneOut(Weighting):
    """Compares each of several independent draws with the mean of the others."""

    def weights(self, fz: Tensor) -> Tensor:
        return less_mean(fz) / (len(fz) - 1)
