"""The lift of pairs of categories, averaged over a set of orders."""

from typing import Literal

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.couplings.base import chunk_length
from carms.couplings.permutations import later_pairs, make_orders, pair_numbers, prefixes

__all__ = ["lift_by_pairs", "mean_lift"]

# Number of (position, order, variable) triples to work on at a time.
_CHUNK = 1 << 19

# Number of pairs of categories, in all orders together, to work on at a time.
_PAIRS = 1 << 22

# Beyond this number of categories, the cells of all orders would take gigabytes.
_LARGEST_TABLE = 64


def mean_lift(
    copula: Copula, probs: Tensor, indices: Tensor, which: Literal["all"] | int
) -> Tensor:
    """The lift ``[K (K - 1) / 2, *batch]`` of the pairs of ``indices [K, *batch]``.

    Args:
        copula: the source of the uniforms.
        probs: ``[*batch, C]``, not necessarily normalised.
        indices: the drawn categories.
        which: the set of orders, see ``make_orders``.
    """
    batch, categories, drawn = probs.shape[:-1], probs.shape[-1], len(indices)
    p = probs.reshape(-1, categories).T.contiguous().to(precise_dtype(probs.device))
    p = p / p.sum(0)
    index = indices.unsqueeze(-1).flatten(1)
    orders = make_orders(categories, which, probs.device)
    # A table costs C^2/2 evaluations of the CDF, the drawn pairs alone N^2/2 lifts, each of which
    # takes longer; measured, the table is faster up to this number of categories.
    by_pairs = copula.cheap_lift or categories > min(2 * drawn + 4, _LARGEST_TABLE)
    columns = chunk_length(p.shape[1], _CHUNK // orders.numel())
    parts = [
        lift_by_pairs(copula, orders, *chunk)
        if by_pairs
        else lift_by_table(copula, which, probs.dtype, *chunk)
        for chunk in zip(p.split(columns, 1), index.split(columns, 1), strict=True)
    ]
    found = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
    return found.unflatten(1, batch) if batch else found.squeeze(1)


def lift_by_pairs(copula: Copula, orders: Tensor, p: Tensor, indices: Tensor) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]`` by the intervals of the drawn categories in every order.

    Args:
        copula: the source of the uniforms.
        orders: ``[M, C]``.
        p: normalised, in double precision.
        indices: ``[K, V]``, the drawn categories.
    """
    total = torch.zeros((), dtype=p.dtype, device=p.device)
    pairs = max(1, len(indices) ** 2 * p.shape[1])
    for order_chunk in orders.split(chunk_length(len(orders), _PAIRS // pairs)):
        widths = p[order_chunk]
        ends = widths.cumsum(1)
        left = (ends - widths).clamp_min(0)
        place = order_chunk.argsort(1)[:, indices]
        left = left.gather(1, place).movedim(1, 0).contiguous()
        width = p.gather(0, indices).unsqueeze(1).expand_as(left).contiguous()
        right = None
        if not copula.cheap_lift:
            right = (ends / ends[:, -1:]).gather(1, place).movedim(1, 0).contiguous()
        total = total + copula.lift(left, width, right).sum(1)
    return total / len(orders)


def lift_by_table(
    copula: Copula, which: Literal["all"] | int, dtype: torch.dtype, p: Tensor, indices: Tensor
) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]`` by the joint table of all categories, with the CDF once per
    pair of boundaries.

    Args:
        copula: the source of the uniforms.
        which: the set of orders, see ``make_orders``.
        dtype: precision in which the table is looked up.
        p: normalised, in double precision.
        indices: ``[K, V]``, the drawn categories.
    """
    categories = p.shape[0]
    members, sets = prefixes(categories, which, p.device)
    ends = (members @ p).clamp_max_(1).index_fill_(0, sets[-1], 1)
    ends = copula.coordinate(ends)[sets]
    first, second = take_pairs(p)
    # The last row is for pairs within one category, of which any positive number will do.
    table = torch.cat((torch.zeros_like(first), torch.ones_like(p[:1])))
    before = None
    for place, pairs in enumerate(later_pairs(categories, which, p.device)):
        # P(u <= end of this place, u' in each later one); less the same for the place before.
        slices = copula.joint(ends[place], ends[place:]).diff(dim=0)
        if before is None:
            table.index_add_(0, pairs, slices.flatten(0, 1))
        else:
            table.index_add_(0, pairs, before[1:].sub_(slices).flatten(0, 1), alpha=-1)
        before = slices
    # Every order adds the mass of a pair once, whichever of the two categories comes first.
    orders, info = sets.shape[1], torch.finfo(p.dtype)
    # Rounding leaves no digit of the rarest pairs: they get a mass, and so a ratio, of its size.
    table[:-1].clamp_min_(orders * info.eps)
    table[:-1].div_(first.mul_(second).mul_(orders).clamp_min_(info.tiny))
    # A row for any two categories in either order: this is smaller than what is looked up in it.
    square = table.to(dtype).index_select(0, pair_numbers(categories, p.device))
    first, second = take_pairs(indices)
    return square.gather(0, first.mul_(categories).add_(second))
