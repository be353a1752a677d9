"""Finite differences with common random numbers."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import positive_number
from carms.core.dtypes import precise_dtype
from carms.core.random import uniform
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct, uncertain
from carms.estimators.registry import register
from carms.sampling.partition import Partition

__all__ = ["FiniteDifference"]


class Memory(NamedTuple):
    """What a draw of ``finite-difference`` remembers beside its samples.

    Attributes:
        sign: ``[N, *batch, D, C]``, the directions.
        possible: ``[*batch, D, C]``, which categories are ``uncertain``.
    """

    sign: Tensor
    possible: Tensor


@register("finite-difference")
class FiniteDifference(Direct):
    """Take central differences of all logits along a random direction of signs.

    ``g = 1/N sum_n (f(z(logits + h s_n)) - f(z(logits - h s_n))) / (2 h) s_n`` where ``z(.)`` uses
    the same uniform numbers both times. Biased, by ``O(h^2)``: the expectation is that of the
    central difference of ``E f`` over all signs ``s``, not of the derivative. The variance grows
    like ``1/h``. The value is that of the logits as they are. Any ``f``; 3 N evaluations, fewer
    of them distinct.

    Args:
        samples: number of directions, at least 1.
        step: the ``h`` above, in units of a logit.

    References:
        Spall (1992) [spall1992]

    Examples:
        >>> import carms
        >>> estimator = carms.make("finite-difference", samples=4)
        >>> here, forth, back = estimator.sample(torch.zeros(99, 3)).indices.unflatten(0, (3, 4))
        >>> float((here != forth).double().mean()) < 0.5  # most samples do not move
        True
    """

    unbiased = False
    sums_to_zero = False

    def __init__(self, samples: int = 8, step: float = 0.3) -> None:
        super().__init__(samples)
        self.step = positive_number("step", step)

    def evaluations(self, variables: int, categories: int) -> int:
        return 3 * self.samples

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        wide = precise_dtype(probs.device)
        shape = self.samples, *probs.shape
        sign = (uniform(shape, generator, probs.dtype, probs.device) < 0.5).to(probs.dtype)
        sign = 2 * sign - 1
        u = uniform(shape[:-1], generator, wide, probs.device)
        shift = self.step * torch.stack((torch.zeros_like(sign), sign, -sign))
        moved = Partition.of((probs.log() + shift).softmax(-1))
        indices = moved.category(u.expand(1, 3, *u.shape)).squeeze(0)
        possible = uncertain(probs)
        return indices.flatten(0, 1), Memory(sign, possible)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        sign, possible = draw.memory
        _, forth, back = fz.unflatten(0, (3, -1))
        slope = (forth - back) / (2 * self.step)
        # The gradient of a certain variable is zero: leave out the noise around it.
        gradient: Tensor = (slope.unsqueeze(-1) * sign).mean(0) * possible
        return gradient

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return fz[: self.samples].mean(0)
