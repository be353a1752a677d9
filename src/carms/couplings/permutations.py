"""Fixed sets of orders of the categories, as tensors."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from carms.core.dtypes import precise_dtype
from carms.core.memo import constant
from carms.core.pairs import pair_index

__all__ = ["later_pairs", "make_orders", "pair_numbers", "prefixes"]

# Largest number of entries in a set of orders: all of 322 categories, or 256 orders of 65,536.
_MOST = 1 << 24
# Where orders are made, whatever the default device: they are the same on every machine.
_CPU = torch.device("cpu")


@constant
def make_orders(categories: int, which: Literal["all"] | int, device: torch.device) -> Tensor:
    """``[M, C]``: the orders that the paper averages over, or M mixed ones.

    Examples:
        >>> make_orders(3, "all", torch.device("cpu"))
        tensor([[0, 2, 1],
                [0, 1, 2],
                [1, 0, 2]])
    """
    count = categories * (categories - 1) // 2 if which == "all" else which
    if count * categories > _MOST:
        raise ValueError(
            f"{categories:,} categories in {count:,} orderings are too many to average over, as "
            "carms-i does; use fewer orderings or carms-s"
        )
    orders = _of_the_paper(categories) if which == "all" else _mixed(categories, which)
    return orders.to(device)


@constant
def pair_numbers(categories: int, device: torch.device) -> Tensor:
    """``[C * C]``: entry ``first * C + second`` is the number of that pair in ``take_pairs``, or
    the number of pairs if both are the same category.
    """
    first, second = pair_index(categories, device)
    numbers = torch.full((categories, categories), len(first), device=device)
    numbers[first, second] = numbers[second, first] = torch.arange(len(first), device=device)
    return numbers.flatten()


@constant
def later_pairs(
    categories: int, which: Literal["all"] | int, device: torch.device
) -> tuple[Tensor, ...]:
    """For each place, the numbers of the pairs that the category there makes with each later one:
    ``[later * M]``.
    """
    orders = make_orders(categories, which, device)
    numbers = pair_numbers(categories, device)
    return tuple(
        numbers[(orders[:, place] * categories + orders[:, place + 1 :].T).flatten()]
        for place in range(categories - 1)
    )


@constant
def prefixes(
    categories: int, which: Literal["all"] | int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The sets of categories with which the orders begin, each once: their members ``[sets, C]``
    as zeros and ones, and which of them each order fills up to each place: ``[C, M]``.
    """
    orders = make_orders(categories, which, device)
    members = one_hot(orders.T, categories).cumsum(0).flatten(0, 1)
    if torch.compiler.is_compiling():  # the number of sets would have to be known
        sets = torch.arange(len(members), device=device)
    else:
        members, sets = members.unique(dim=0, return_inverse=True)
    return members.to(precise_dtype(device)), sets.view(categories, -1)


def _of_the_paper(categories: int) -> Tensor:
    """For each pair ``i < j``, the cyclic order from ``i`` on, with ``j`` exchanged with whatever
    stands last: every pair is first and last once.
    """
    first, last = pair_index(categories, _CPU)
    orders: Tensor = (first.unsqueeze(-1) + torch.arange(categories, device=_CPU)) % categories
    place = (last - first) % categories
    orders[torch.arange(len(first), device=_CPU), place] = orders[:, -1].clone()
    orders[:, -1] = last
    return orders


def _mixed(categories: int, count: int) -> Tensor:
    """The given order, then fixed shuffles of it."""
    place = torch.arange(categories, device=_CPU)
    prime = 2**31 - 1
    keys = place + categories * torch.arange(count, device=_CPU).unsqueeze(-1)
    # Squares modulo a prime look random, and are the same on every machine.
    for _ in range(2):
        keys = ((keys + 1) * 48_271 % prime).square() % prime
    orders = keys.argsort(-1)
    orders[0] = place
    return orders
