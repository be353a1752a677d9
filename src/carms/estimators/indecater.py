"""IndeCateR, the CatLog-derivative trick for independent variables."""

import torch
from torch import Tensor

from carms.estimators.base import Draw
from carms.estimators.drawing import Direct, independent_samples
from carms.memory import check_memory

__all__ = ["Indecater"]


class Indecater(Direct):
    """Each variable is summed over exactly, under samples of the others drawn for it alone.

    ``g[d, c] = 1/N sum_n p[d, c] (f(z_nd with z_d = c) - sum_k p[d, k] f(z_nd with z_d = k))``,
    with independent ``z_nd`` for every sample n and variable d. Where ``local-expectation`` shares
    its samples among the variables, this one does not, at more evaluations. Unbiased, for any
    ``f``; ``N D C`` evaluations.

    Args:
        samples: for each variable, at least 1.

    References:
        L. De Smet, E. Sansone, P. Zuidberg Dos Martires (2023), Differentiable sampling of
        categorical distributions using the CatLog-derivative trick, arXiv:2311.12569.
    """

    def __init__(self, samples: int = 1) -> None:
        if samples < 1:
            raise ValueError(f"indecater needs at least 1 sample, got samples={samples}")
        self.samples = samples

    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        *batch, count, categories = probs.shape
        shape = (self.samples, *probs.shape, count)
        check_memory("samples for each category", shape, 8, probs.device)
        z = independent_samples(probs, self.samples * max(1, count), generator)
        if count == 0:
            return z, (probs,)
        z = z.view(self.samples, count, 1, *batch, count)
        which = torch.arange(count, device=z.device)
        value = torch.arange(categories, device=z.device).view(-1, *[1] * (len(batch) + 1))
        chosen = which.view(-1, *[1] * (len(batch) + 2)) == which
        # An impossible category is replaced by what was drawn.
        possible = probs.movedim(-1, 0) > 0
        points = torch.where(chosen & possible, value, z)
        return points.flatten(0, 2), (probs,)

    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        (probs,) = draw.extra
        if not probs.shape[-2]:
            return torch.zeros_like(probs)
        table = self._table(draw, fz)
        # What is common to all categories cancels; take it away before it is rounded.
        table = table - table[..., :1]
        mean = (probs * table).sum(-1, keepdim=True)
        return (probs * (table - mean)).mean(0)

    def _value(self, draw: Draw, fz: Tensor) -> Tensor:
        if draw.indices.shape[-1] == 0:
            return fz.mean(0)
        (probs,) = draw.extra
        return (probs.to(fz.dtype) * self._table(draw, fz.unsqueeze(-1))).sum(-1).mean((0, -1))

    def _table(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[N, *batch, D, C]``."""
        *batch, count, categories = draw.extra[0].shape
        fz = fz.view(self.samples, count, categories, *batch, fz.shape[-1])
        # Each variable has samples of its own, and among the values there its own.
        return fz.expand(*fz.shape[:-1], count).diagonal(dim1=1, dim2=-1).movedim(1, -1)
