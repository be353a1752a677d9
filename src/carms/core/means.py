"""Differences from a mean, without loss of digits."""

from torch import Tensor

__all__ = ["less_mean"]


def less_mean(values: Tensor, dim: int = 0) -> Tensor:
    """``values`` less their mean along a dimension.

    The first value is subtracted before the mean is taken, since the mean of large numbers is
    rounded.

    Examples:
        >>> import torch
        >>> less_mean(torch.tensor([2.0**24, 2.0**24, 2.0**24 + 2]))
        tensor([-0.6667, -0.6667,  1.3333])
    """
    values = values - values.narrow(dim, 0, 1)
    return values - values.mean(dim, keepdim=True)
