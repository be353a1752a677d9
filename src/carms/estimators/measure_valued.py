"""Measure-valued gradients."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.random import uniform
from carms.core.softmax import normalised
from carms.estimators.base import Draw
from carms.estimators.families.neighbours import AllNeighbours, neighbour_table, neighbours
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples
from carms.sampling.partition import Partition

__all__ = ["MeasureValued"]


class Memory(NamedTuple):
    """What a draw of ``measure-valued`` remembers beside its samples.

    Attributes:
        z: ``[N, *batch, D]`` samples.
        probs: ``[*batch, D, C]``.
        other: ``[N, *batch, D, C]``: for each category, one drawn from all the others.
    """

    z: Tensor
    probs: Tensor
    other: Tensor


@register("measure-valued")
class MeasureValued(AllNeighbours):
    """Write the derivative of a distribution as a multiple of the difference of two distributions.

    With respect to the logit of c, they are "always c" and "drawn, but not c":
    ``g[d, c] = 1/N sum_n p[d, c] (1 - p[d, c]) (f(z_n with z_d = c) - f(z_n with z_d = k))`` with
    ``k`` drawn from the other categories. The two share the other variables, and all categories
    share their evaluations. ``local-expectation`` averages over k exactly at the same
    cost. Unbiased, for any ``f``; ``N (D (C - 1) + 1)`` evaluations.

    Args:
        samples: number of samples of all variables, at least 1.

    References:
        - Heidergott and Vazquez-Abad (2008) [heidergott2008]
        - Mohamed et al. (2020) [mohamed2020]

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> value = carms.expectation(lambda z: z[..., 0, 1], logits, "measure-valued", samples=1)
        >>> torch.autograd.grad(value, logits)[0]  # exact, since there is only one other category
        tensor([[-0.1966,  0.1966]])
    """

    sums_to_zero = False

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        z = independent_samples(probs, self.samples, generator)
        other = _all_but_one(probs, self.samples, generator)
        return neighbours(z, probs), Memory(z, probs, other)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        z, probs, other = draw.memory
        table = neighbour_table(fz, z, probs.shape[-1])
        # In double precision: single has few digits of a small ``1 - p``.
        p = normalised(probs)
        return ((p * (1 - p)).to(fz.dtype) * (table - table.gather(-1, other))).mean(0)


def _all_but_one(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """``[N, *batch, C]``: for each category, one drawn from all the others of ``probs``."""
    p = normalised(probs)
    wide = p.dtype
    u = uniform((samples, *probs.shape[:-1], 1), generator, wide, probs.device)
    # A uniform on [0, 1 - p_c], moved beyond the interval of c if it is not below it.
    u = u * (1 - p)
    u = torch.where(u < p.cumsum(-1) - p, u, u + p)
    u = u.clamp_max(1 - torch.finfo(wide).eps / 2).movedim(-1, 1)
    others: Tensor = Partition.of(probs).category(u.flatten(0, 1)).unflatten(0, (samples, -1))
    return others.movedim(1, -1)
