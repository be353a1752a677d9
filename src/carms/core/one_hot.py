"""Indices as one-hot vectors."""

import torch
from torch import Tensor
from torch.nn.functional import embedding

from carms.core.checks.tensors import check_memory
from carms.core.memo import constant

__all__ = ["one_hot"]

# Up to this number of categories, copying rows of the identity is faster than comparing with each.
_FEW = 64


def one_hot(indices: Tensor, categories: int, dtype: torch.dtype) -> Tensor:
    """``[*shape, C]`` with a one at each of ``indices [*shape]``.

    Examples:
        >>> one_hot(torch.tensor([2, 0]), 3, torch.float32)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    check_memory("one-hot samples", (*indices.shape, categories), dtype.itemsize, indices.device)
    if categories <= _FEW:
        return embedding(indices, _identity(categories, dtype, indices.device))
    return (indices.unsqueeze(-1) == torch.arange(categories, device=indices.device)).to(dtype)


@constant
def _identity(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(size, dtype=dtype, device=device)
