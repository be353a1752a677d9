"""Points that differ from a sample in one variable, and the values there."""

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct

__all__ = ["AllNeighbours", "neighbour_table", "neighbours"]


class AllNeighbours(Direct):
    """Estimators that evaluate ``f`` at N samples and then at all their ``neighbours``."""

    def evaluations(self, variables: int, categories: int) -> int:
        return self.samples * (1 + variables * (categories - 1))

    def value(self, draw: Draw, fz: Tensor) -> Tensor:
        return fz[: self.samples].mean(0)


def neighbours(z: Tensor, probs: Tensor) -> Tensor:
    """Return the points ``z [N, *batch, D]``, then all that differ from one of them in one
    variable: ``[N + N D (C - 1), *batch, D]``. An impossible one is replaced by the point itself.
    """
    samples, variables, categories = z.shape[0], z.shape[-1], probs.shape[-1]
    shape = (*z.shape, categories - 1, variables)
    check_memory("neighbours of samples", shape, 2 * z.itemsize, z.device)
    shift = torch.arange(1, categories, device=z.device)
    other = (z.unsqueeze(-1) + shift) % categories
    possible = probs.expand(samples, *probs.shape).gather(-1, other) > 0
    other = torch.where(possible, other, z.unsqueeze(-1))
    which = torch.eye(variables, dtype=torch.bool, device=z.device).unsqueeze(1)
    # [N, *batch, changed variable, C - 1, D]
    changed = torch.where(which, other.unsqueeze(-1), z.unsqueeze(-2).unsqueeze(-2))
    changed = changed.movedim((-3, -2), (1, 2)).flatten(0, 2)
    return torch.cat((z, changed))


def neighbour_table(fz: Tensor, z: Tensor, categories: int) -> Tensor:
    """``[N, *batch, D, C]``: f with one variable set to each category, the others as in ``z``.

    Args:
        fz: values at the ``neighbours`` of ``z``, ``[..., D]`` with its own for each variable, or
            ``[..., 1]`` for all.
        z: ``[N, *batch, D]``.
        categories: number of categories C.
    """
    samples, *batch, variables = z.shape
    here = fz[:samples].expand(z.shape).unsqueeze(-1)
    there = fz[samples:].view(samples, variables, categories - 1, *batch, fz.shape[-1])
    there = there.expand(*there.shape[:-1], variables).diagonal(dim1=1, dim2=-1)
    by_shift = torch.cat((here, there.movedim(1, -1)), -1)
    shift = torch.arange(categories, device=z.device) - z.unsqueeze(-1)
    return by_shift.gather(-1, shift % categories)
