"""Means over samples, and differences from them without loss of digits."""

from torch import Tensor

__all__ = ["less_mean", "mean_of_others"]


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


def mean_of_others(values: Tensor) -> Tensor:
    """Mean over all samples but the own, which are along the first dimension.

    Examples:
        >>> import torch
        >>> mean_of_others(torch.tensor([1.0, 2.0, 6.0]))
        tensor([4.0000, 3.5000, 1.5000])
    """
    return (values.sum(0) - values) / (len(values) - 1)
