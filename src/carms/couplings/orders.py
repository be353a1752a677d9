"""Ways of ordering the categories along the unit interval: each draws samples and lifts pairs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.random import uniform
from carms.couplings.base import Drawn
from carms.couplings.mean_lift import lift_by_pairs, mean_lift
from carms.couplings.permutations import make_orders
from carms.sampling.partition import Located, Partition

__all__ = ["Given", "LargestFirst", "Mixed", "MixedByOrder", "Order"]


class Order(ABC):
    """A way of laying categories side by side on [0, 1], for samples of a copula."""

    def __init__(self, copula: Copula) -> None:
        self.copula = copula

    @abstractmethod
    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        """The categories of ``probs [*batch, C]`` in whose intervals ``u [K, *batch]`` lie.

        Args:
            probs: non-negative, not necessarily normalised.
            u: uniforms in (0, 1), in double precision.
            generator: chooses the order where there are several.
        """

    @abstractmethod
    def given(self, probs: Tensor, indices: Tensor) -> Drawn:
        """Take the categories ``indices [K, *batch]`` as if they had been drawn."""


class Given(Order):
    """The order as it is."""

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        located = Partition.of(probs).find(u)
        return _InOrder(located.indices, self.copula, located)

    def given(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InOrder(indices, self.copula, Partition.of(probs).at(indices))


class LargestFirst(Order):
    """The cyclic order that puts the most probable category where the copula has its hole: first,
    or last if the hole is at the upper end.
    """

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        start = self._start(probs)
        located = Partition.of(_rotated(probs, start)).find(u)
        return _InOrder((located.indices + start) % probs.shape[-1], self.copula, located)

    def given(self, probs: Tensor, indices: Tensor) -> Drawn:
        start = self._start(probs)
        places = (indices - start) % probs.shape[-1]
        return _InOrder(indices, self.copula, Partition.of(_rotated(probs, start)).at(places))

    def _start(self, probs: Tensor) -> Tensor:
        """The category ``[*batch]`` with which the order begins."""
        largest = probs.max(-1).indices
        at_the_end = self.copula.hole is not None and self.copula.hole.corner == 1
        return (largest + 1) % probs.shape[-1] if at_the_end else largest


class Mixed(Order):
    """One of a fixed set of orders, drawn for each variable; lifts are means over the set.

    Args:
        copula: the source of the uniforms.
        which: ``"all"`` orders of the paper, or the number of shuffles.
    """

    def __init__(self, copula: Copula, which: Literal["all"] | int) -> None:
        super().__init__(copula)
        self.which = which

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        orders = make_orders(probs.shape[-1], self.which, probs.device)
        choice = _choose(len(orders), u, generator)
        order = orders.index_select(0, choice.flatten()).view(probs.shape)
        places = Partition.of(probs.gather(-1, order)).category(u)
        return self.given(probs, order.movedim(-1, 0).gather(0, places))

    def given(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InMixed(indices, self.copula, probs, self.which)


class MixedByOrder(Order):
    """``Mixed`` shuffles, one after the other: the fastest for a few of them of many categories.

    Args:
        copula: the source of the uniforms.
        count: number of orders.
    """

    def __init__(self, copula: Copula, count: int) -> None:
        super().__init__(copula)
        self.count = count

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        choice = _choose(self.count, u, generator)
        orders, partitions = self._partitions(probs)
        indices = torch.zeros_like(u, dtype=torch.long)
        for number, (order, partition) in enumerate(zip(orders, partitions, strict=True)):
            indices = torch.where(choice == number, order[partition.category(u)], indices)
        return _InMixedByOrder(indices, self.copula, orders, partitions)

    def given(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InMixedByOrder(indices, self.copula, *self._partitions(probs))

    def _partitions(self, probs: Tensor) -> tuple[Tensor, list[Partition]]:
        """The orders ``[M, C]``, and the categories laid out in each of them."""
        orders = make_orders(probs.shape[-1], self.count, probs.device)
        # `index_select` is many times faster on a matrix.
        rows = probs.reshape(-1, probs.shape[-1])
        laid_out = [rows.index_select(1, order).view(probs.shape) for order in orders]
        return orders, [Partition.of(each) for each in laid_out]


@dataclass(frozen=True)
class _InOrder(Drawn):
    indices: Tensor
    copula: Copula
    located: Located

    def lift(self) -> Tensor:
        return _lift(self.copula, self.located)


@dataclass(frozen=True)
class _InMixed(Drawn):
    indices: Tensor
    copula: Copula
    probs: Tensor
    which: Literal["all"] | int

    def lift(self) -> Tensor:
        return mean_lift(self.copula, self.probs, self.indices, self.which)

    def table_lift(self) -> Tensor:
        # Not by differences of the CDF, which have all digits of likely pairs alone.
        categories = self.probs.shape[-1]
        orders = make_orders(categories, self.which, self.probs.device)
        p = self.probs.reshape(-1, categories).T.contiguous()
        found = lift_by_pairs(self.copula, orders, p, self.indices.unsqueeze(-1).flatten(1))
        return found.view(len(found), *self.probs.shape[:-1])


@dataclass(frozen=True)
class _InMixedByOrder(Drawn):
    indices: Tensor
    copula: Copula
    orders: Tensor
    partitions: list[Partition]

    def lift(self) -> Tensor:
        places = [order.argsort()[self.indices] for order in self.orders]
        located = [
            partition.at(place) for partition, place in zip(self.partitions, places, strict=True)
        ]
        return torch.stack([_lift(self.copula, each) for each in located]).mean(0)


def _lift(copula: Copula, located: Located) -> Tensor:
    """The lift of categories by their intervals in one order."""
    return copula.lift(*(located.interval() if copula.cheap_lift else located.ends()))


def _choose(orders: int, u: Tensor, generator: torch.Generator | None) -> Tensor:
    """The number ``[*batch]`` of one of the orders for each column of ``u [K, *batch]``."""
    choice = uniform(u.shape[1:], generator, u.dtype, u.device)
    return (choice * orders).long().clamp_max(orders - 1)


def _rotated(probs: Tensor, start: Tensor) -> Tensor:
    """``probs [*batch, C]`` in cyclic order from category ``start [*batch]`` on."""
    categories = torch.arange(probs.shape[-1], device=probs.device)
    return probs.gather(-1, (categories + start.unsqueeze(-1)) % probs.shape[-1])
