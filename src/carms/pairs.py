"""Unordered pairs of samples: the layout ``[N (N - 1) / 2, ...]`` used throughout."""

import torch
from torch import Tensor

__all__ = ["take_pairs", "weights_from_pairs"]


def _pair_index(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(count, count, 1, device=device)
    return first, second


def take_pairs(values: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second member of every pair along the leading dimension.

    >>> take_pairs(torch.tensor([5, 6, 7]))
    (tensor([5, 5, 6]), tensor([6, 7, 7]))
    """
    first, second = _pair_index(values.shape[0], values.device)
    return values.index_select(0, first), values.index_select(0, second)


def weights_from_pairs(pair_terms: Tensor, count: int) -> Tensor:
    """Add each pair's term to its first member and subtract it from its second.

    >>> weights_from_pairs(torch.tensor([1.0, 10.0, 100.0]), 3)
    tensor([  11.,   99., -110.])
    """
    members = torch.arange(count, device=pair_terms.device).unsqueeze(-1)
    first, second = _pair_index(count, pair_terms.device)
    incidence = (members == first).to(pair_terms.dtype) - (members == second).to(pair_terms.dtype)
    return torch.tensordot(incidence, pair_terms, 1)
