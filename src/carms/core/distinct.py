"""Points without repetitions."""

import math

import torch
from torch import Tensor

__all__ = ["distinct"]


def distinct(points: Tensor) -> tuple[Tensor, Tensor]:
    """Remove repeated points of each example.

    Args:
        points: ``[K, *batch, D]`` categories.

    Returns:
        ``[L, *batch, D]`` with the smallest L that holds the distinct points of every example
        (those that have fewer repeat one), and ``[K, *batch]``: which of the L each of the K is.
        The compiler and ``vmap``, which have to know L, get the points as they are.
    """
    count, *batch, variables = points.shape
    rows = points.reshape(count, math.prod(batch), variables)
    labels = _labels(rows)
    if labels is None:
        place = torch.arange(count, device=points.device)
        return points, place.view(-1, *[1] * len(batch)).expand(count, *batch)
    labels, order = labels.sort(0)
    rank = torch.zeros_like(labels)
    rank[1:] = (labels[1:] != labels[:-1]).cumsum(0)
    place = torch.empty_like(rank).scatter_(0, order, rank)
    source = order.new_zeros(int(rank[-1].max()) + 1, rows.shape[1]).scatter_(0, rank, order)
    chosen = rows.gather(0, source.unsqueeze(-1).expand(-1, -1, variables))
    return chosen.view(-1, *batch, variables), place.view(count, *batch)


def _labels(rows: Tensor) -> Tensor | None:
    """Numbers ``[K, B]`` that are equal where points ``[K, B, D]`` are; None where that depends on
    values that cannot be looked at.
    """
    if torch.compiler.is_compiling() or rows.numel() == 0:
        return None
    try:
        base = int(rows.max()) + 1
        labels, most = rows.new_zeros(rows.shape[:-1]), 1
        for column in rows.unbind(-1):
            if most * base >= 2**62:
                found, labels = labels.unique(return_inverse=True)
                most = len(found)
            labels, most = labels * base + column, most * base
    except RuntimeError as error:
        if "vmap" in str(error):
            return None
        raise
    return labels
