"""The expectation itself, by enumeration."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carms.core.checks.options import whole_number
from carms.subsets.base import ScoreFunction, Weighting
from carms.subsets.enumeration import with_log_probs

__all__ = ["Enumerated", "Exact"]


class Exact(ScoreFunction):
    """Evaluate ``f`` on all subsets, or rankings: no variance, and the yardstick of the others.

    There may be at most 65,536 of them. In the place of one of probability zero, ``f`` is given the
    likeliest, with weight zero.

    Args:
        size: number of items to choose, k.
        samples: accepted so that all estimators can be made alike; enumeration needs none.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    Examples:
        >>> Exact(size=2).expectation(lambda z: z[..., 0], torch.zeros(5))  # item 0 is among 2 of 5
        tensor(0.4000)
    """

    name = "exact"
    least_samples = 0

    def __init__(self, size: int, samples: int = 0, ordered: bool = False) -> None:
        if whole_number("samples", samples) < 0:
            raise ValueError(f"exact needs no samples, got {samples=}")
        super().__init__(size, 0, ordered)

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Weighting]:
        items, log_p = with_log_probs(self, logits)
        number = torch.arange(len(items), device=items.device)
        number = number.view(-1, *[1] * (logits.ndim - 1)).expand(log_p.shape)
        possible = torch.where(log_p > -torch.inf, number, log_p.argmax(0))
        return items[possible], Enumerated(log_p.exp())


@dataclass(frozen=True)
class Enumerated(Weighting):
    """Weighs all subsets, or rankings, by their probabilities ``[M, *batch]``."""

    probs: Tensor

    def weights(self, fz: Tensor) -> Tensor:
        return self.probs * fz

    def value(self, fz: Tensor) -> Tensor:
        return (self.probs * fz).sum(0).to(fz.dtype)
