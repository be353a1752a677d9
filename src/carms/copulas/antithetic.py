"""Antithetic pairs ``(u, 1 - u)``, the law of two samples of several copulas."""

import torch
from torch import Tensor

from carms.core.pairs import take_pairs

__all__ = ["antithetic_lift"]


def antithetic_lift(left: Tensor, width: Tensor, right: Tensor) -> Tensor:
    """``Copula.lift`` of antithetic pairs: how much of one interval is the mirror image of another.

    Examples:
        >>> left, width = torch.tensor([0.0, 0.25]), torch.tensor([0.25, 0.75])
        >>> antithetic_lift(left, width, left + width)  # the second is drawn whenever the first is
        tensor([1.3333])
    """
    (left_a, left_b), (right_a, right_b) = take_pairs(left), take_pairs(right)
    width_a, width_b = take_pairs(width.clamp_min(torch.finfo(width.dtype).tiny))
    overlap = torch.minimum(right_a - (1 - right_b), (1 - left_b) - left_a)
    overlap = torch.minimum(overlap, torch.minimum(width_a, width_b)).clamp_min_(0)
    return (overlap / width_a).div_(width_b).add_((left_a == left_b) & (width_a == width_b))
