"""Groups of variables with different numbers of categories, side by side in one tensor."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["join", "split"]


def join(groups: Sequence[Tensor]) -> Tensor:
    """Logits ``[*batch, sum of D, largest C]`` of all groups ``[*batch, D, C]``.

    Categories that a group does not have get ``-inf``: they are never drawn.

    Examples:
        >>> join((torch.zeros(1, 3), torch.ones(2, 2)))
        tensor([[0., 0., 0.],
                [1., 1., -inf],
                [1., 1., -inf]])
    """
    most = max(logits.shape[-1] for logits in groups)
    wide = [pad(logits, (0, most - logits.shape[-1]), value=-torch.inf) for logits in groups]
    return torch.cat(wide, -2)


def split(z: Tensor, groups: Sequence[Tensor]) -> list[Tensor]:
    """The parts ``[..., D, C]`` of ``z [..., sum of D, largest C]`` that belong to the groups."""
    # Not by `torch.split`: what it returns cannot be written on with autograd.
    ends = accumulate(logits.shape[-2] for logits in groups)
    return [
        z[..., end - logits.shape[-2] : end, : logits.shape[-1]]
        for end, logits in zip(ends, groups, strict=True)
    ]
