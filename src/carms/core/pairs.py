"""Unordered pairs of samples: the layout ``[N (N - 1) / 2, ...]`` used throughout."""

from collections.abc import Sequence

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory
from carms.core.memo import constant
from carms.core.products import exact_product

__all__ = ["check_pairs", "pair_index", "pair_weights", "take_pairs", "weights_from_pairs"]

# Up to this number of samples a product with a small matrix, which is kept, is as fast.
_FEW = 16


def check_pairs(count: int, batch: Sequence[int], device: torch.device) -> None:
    """Raise if the ratios of all pairs of ``count`` samples would not fit into memory."""
    pairs = count * (count - 1) // 2
    check_memory("ratios of pairs of samples", (pairs, *batch), 32, device)


@constant
def pair_index(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Which samples are the first and the second member of each pair."""
    first, second = torch.triu_indices(count, count, 1, device=device)
    return first.contiguous(), second.contiguous()


@constant
def _incidence(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``[N, pairs]``: 1 where a sample is the first of a pair, -1 where it is the second."""
    members = torch.arange(count, device=device).unsqueeze(-1)
    first, second = pair_index(count, device)
    return (members == first).to(dtype) - (members == second).to(dtype)


def take_pairs(values: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second member of every pair along the leading dimension.

    Examples:
        >>> take_pairs(torch.tensor([5, 6, 7]))
        (tensor([5, 5, 6]), tensor([6, 7, 7]))
    """
    first, second = pair_index(values.shape[0], values.device)
    return values.index_select(0, first), values.index_select(0, second)


def weights_from_pairs(pair_terms: Tensor, count: int) -> Tensor:
    """Add each pair's term to its first member and subtract it from its second.

    Examples:
        >>> weights_from_pairs(torch.tensor([1.0, 10.0, 100.0]), 3)
        tensor([  11.,   99., -110.])
    """
    if count > _FEW:
        first, second = pair_index(count, pair_terms.device)
        weights = pair_terms.new_zeros(count, *pair_terms.shape[1:])
        return weights.index_add(0, first, pair_terms).index_add(0, second, -pair_terms)
    incidence = _incidence(count, pair_terms.dtype, pair_terms.device)
    weights = exact_product(incidence, pair_terms.unsqueeze(-1).flatten(1))
    return weights.view(count, *pair_terms.shape[1:])


def pair_weights(values: Tensor, ratio: Tensor, draws: int = 1) -> Tensor:
    """Weights ``w_n = 1/(N (N - 1)) sum_m (f_n - f_m) R_nm`` of samples from values and ratios.

    Args:
        values: ``f``, ``[N, ...]``.
        ratio: ``R`` of the pairs, ``[N (N - 1) / 2, ...]``.
        draws: number of independent draws over which the estimate is averaged.

    Examples:
        >>> pair_weights(torch.tensor([1.0, 0.0, 0.0]), torch.ones(3))
        tensor([ 0.3333, -0.1667, -0.1667])
    """
    count = len(values)
    first, second = take_pairs(values)
    difference = (first - second) / (count * (count - 1) * draws)
    return weights_from_pairs(difference * ratio, count)
