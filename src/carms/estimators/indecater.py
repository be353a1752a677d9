"""IndeCateR, the CatLog-derivative trick for independent variables."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory
from carms.core.softmax import through_softmax
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["Indecater"]


class Memory(NamedTuple):
    """What a draw of ``indecater`` remembers beside its samples.

    Attributes:
        probs: ``[*batch, D, C]``.
    """

    probs: Tensor


@register("indecater")
class Indecater(Direct):
    """Sum over each variable exactly, under samples of the others drawn for it alone.

    ``g[d, c] = 1/N sum_n p[d, c] (f(z_nd with z_d = c) - sum_k p[d, k] f(z_nd with z_d = k))``,
    with independent ``z_nd`` for every sample n and variable d. ``local-expectation`` shares its
    samples among the variables instead, at fewer evaluations. Unbiased, for any ``f``; ``N D C``
    evaluations.

    Args:
        samples: number of samples for each variable, at least 1.

    References:
        De Smet, Sansone and Zuidberg Dos Martires (2023) [desmet2023]

    Examples:
        >>> import carms
        >>> [
        ...     carms.make(name, samples=2).evaluations(variables=3, categories=4)
        ...     for name in ("indecater", "local-expectation")
        ... ]
        [24, 20]
    """

    def evaluations(self, variables: int, categories: int) -> int:
        return self.samples * variables * categories

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        *batch, count, categories = probs.shape
        shape = (self.samples, *probs.shape, count)
        check_memory("samples for each category", shape, 8, probs.device)
        z = independent_samples(probs, self.samples * max(1, count), generator)
        if count == 0:
            return z, Memory(probs)
        z = z.view(self.samples, count, 1, *batch, count)
        which = torch.arange(count, device=z.device)
        value = torch.arange(categories, device=z.device).view(-1, *[1] * (len(batch) + 1))
        chosen = which.view(-1, *[1] * (len(batch) + 2)) == which
        # An impossible category is replaced by what was drawn.
        possible = probs.movedim(-1, 0) > 0
        points = torch.where(chosen & possible, value, z)
        return points.flatten(0, 2), Memory(probs)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        probs = draw.memory.probs
        if not probs.shape[-2]:
            return torch.zeros_like(probs)
        return through_softmax(probs, self._table(draw, fz)).mean(0)

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        if draw.drawn.shape[-1] == 0:
            return fz.mean(0)
        probs = draw.memory.probs
        table = self._table(draw, fz.unsqueeze(-1))
        return (probs * table).sum(-1).mean((0, -1)).to(fz.dtype)

    def _table(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        """Values ``[N, *batch, D, C]`` of ``f`` with one variable set to each category."""
        *batch, count, categories = draw.memory.probs.shape
        fz = fz.view(self.samples, count, categories, *batch, fz.shape[-1])
        # Each variable has its own samples, and its own values at them.
        return fz.expand(*fz.shape[:-1], count).diagonal(dim1=1, dim2=-1).movedim(1, -1)
