"""Orders of the categories along the unit interval."""

from functools import cache

import torch
from torch import Tensor

__all__ = ["mixed_orderings", "paper_orderings"]


@cache
def paper_orderings(categories: int) -> Tensor:
    """``[C (C - 1) / 2, C]``: for each pair ``i < j`` an order with ``i`` first and ``j`` last.

    It is the cyclic order that starts at ``i``, with ``j`` exchanged with whatever stands last.

    >>> paper_orderings(3)
    tensor([[0, 2, 1],
            [0, 1, 2],
            [1, 0, 2]])
    """
    first, last = torch.triu_indices(categories, categories, 1)
    orders = (first.unsqueeze(-1) + torch.arange(categories)) % categories
    place = (last - first) % categories
    rows = torch.arange(len(first))
    orders[rows, place] = orders[:, -1].clone()
    orders[:, -1] = last
    return orders


@cache
def mixed_orderings(categories: int, count: int) -> Tensor:
    """``[count, C]``: the given order, then fixed shuffles of it.

    >>> mixed_orderings(4, 2)[0]
    tensor([0, 1, 2, 3])
    """
    generator = torch.Generator().manual_seed(0)
    shuffles = [torch.randperm(categories, generator=generator) for _ in range(count - 1)]
    return torch.stack([torch.arange(categories), *shuffles])
