"""Scales of control variates, fitted without bias on other examples."""

import torch
from torch import Tensor

from carms.precision import precise_dtype

__all__ = ["cross_fit", "moments"]

# Strength of the two pulls below, as a number of examples.
_TO_ONE, _TO_COMMON = 1.0, 10.0


def moments(base: Tensor, *terms: Tensor) -> Tensor:
    """Inner products ``[*batch, 1 + K, 1 + K]`` of an estimate and K terms of mean zero.

    Args:
        base: ``[*batch, D, C]``, the gradient of each example.
        terms: ``[*batch, D, C]`` each.
    """
    rows = torch.stack((base, *terms), -3).flatten(-2).to(precise_dtype(base.device))
    return rows @ rows.mT


def cross_fit(own: Tensor, past: Tensor, past_count: Tensor) -> Tensor:
    """Scales that let ``base + sum_k scale_k term_k`` vary the least.

    The scales of an example are fitted by least squares on all *other* examples, whose draws are
    independent of its own, and on past calls. So no scale depends on the draw that it multiplies,
    and nothing is biased. Few examples make a noisy fit: a common scale is pulled towards 1, and
    the scale of each term towards the common one. A single example without a past gets ones.

    Args:
        own: ``[*batch, 1 + K, 1 + K]``, the ``moments`` of each example.
        past: ``[1 + K, 1 + K]``, the sum of the moments of past calls.
        past_count: number of examples in that sum.

    Returns:
        ``[K, *batch]``.
    """
    flat = own.reshape(-1, *own.shape[-2:])
    others = flat.sum(0) + past - flat
    tiny = torch.finfo(own.dtype).tiny
    count = (past_count + (len(flat) - 1)).clamp_min(tiny)
    gram, target = others[:, 1:, 1:], -others[:, 1:, 0]
    # The least squares of a single term, the sum of all.
    square = gram.sum((-2, -1))
    pull = square * (_TO_ONE / count) + tiny
    common = ((target.sum(-1) + pull) / (square + pull)).unsqueeze(-1)
    if target.shape[-1] == 2:
        square = gram.diagonal(dim1=-2, dim2=-1)
        pull = square * (_TO_COMMON / count) + tiny
        common = _solve_two(square + pull, gram[:, 0, 1:], target + pull * common)
    scales = torch.where(common.isfinite(), common, 1)
    return scales.T.unflatten(1, own.shape[:-2]) if own.ndim > 2 else scales.squeeze(0)


def _solve_two(diagonal: Tensor, mixed: Tensor, target: Tensor) -> Tensor:
    """The solution ``[E, 2]`` of symmetric systems by Cramer's rule."""
    determinant = diagonal.prod(-1, keepdim=True) - mixed.square()
    return (diagonal.flip(-1) * target - mixed * target.flip(-1)) / determinant
