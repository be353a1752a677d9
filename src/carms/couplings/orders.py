"""Orders of the categories on [0, 1]: how to draw samples in them, and how likely pairs are.

The lift of two samples is ``P(i, j) / (p_i p_j)``.
"""

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

__all__ = ["Averaged", "AveragedByOrder", "GivenOrder", "LargestFirst", "Order"]


class Order(ABC):
    """A way of laying categories side by side on [0, 1], for samples of a copula."""

    def __init__(self, copula: Copula) -> None:
        self.copula = copula

    @abstractmethod
    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        """Draw, for each ``u [K, *batch]``, the category whose interval contains it.

        Args:
            probs: ``[*batch, C]``, non-negative, not necessarily normalised.
            u: uniforms in (0, 1), in double precision.
            generator: used only by orders that choose one of several at random.
        """

    @abstractmethod
    def from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        """Take the categories ``indices [K, *batch]`` as if they had been drawn."""


class GivenOrder(Order):
    """Keeps the order of ``probs``."""

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        located = Partition.of(probs).find(u)
        return _InOrder(located.indices, self.copula, located)

    def from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InOrder(indices, self.copula, Partition.of(probs).at(indices))


class LargestFirst(Order):
    """Rotates the categories so that the most probable one covers the copula's hole, a corner in
    which two samples never are: it comes first, or last if the hole is at the upper end.
    """

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        start = self._start(probs)
        located = Partition.of(_rotated(probs, start)).find(u)
        return _InOrder((located.indices + start) % probs.shape[-1], self.copula, located)

    def from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        start = self._start(probs)
        places = (indices - start) % probs.shape[-1]
        return _InOrder(indices, self.copula, Partition.of(_rotated(probs, start)).at(places))

    def _start(self, probs: Tensor) -> Tensor:
        """The category ``[*batch]`` with which the order begins."""
        largest = probs.max(-1).indices
        hole_is_last = self.copula.hole is not None and self.copula.hole.corner == 1
        return (largest + 1) % probs.shape[-1] if hole_is_last else largest


class Averaged(Order):
    """Draws one of a fixed set of orders for each variable; lifts are means over the set.

    Args:
        copula: the source of the uniforms.
        which: ``"all"`` orders of the paper, or a number: the given order and shuffles.
    """

    def __init__(self, copula: Copula, which: Literal["all"] | int) -> None:
        super().__init__(copula)
        self.which = which

    def draw(self, probs: Tensor, u: Tensor, generator: torch.Generator | None) -> Drawn:
        orders = make_orders(probs.shape[-1], self.which, probs.device)
        choice = _choose(len(orders), u, generator)
        order = orders.index_select(0, choice.flatten()).view(probs.shape)
        places = Partition.of(probs.gather(-1, order)).category(u)
        return self.from_indices(probs, order.movedim(-1, 0).gather(0, places))

    def from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InAveraged(indices, self.copula, probs, self.which)


class AveragedByOrder(Order):
    """``Averaged`` with a number, computed order by order: faster for many categories.

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
        return _InAveragedByOrder(indices, self.copula, orders, partitions)

    def from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _InAveragedByOrder(indices, self.copula, *self._partitions(probs))

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
class _InAveraged(Drawn):
    indices: Tensor
    copula: Copula
    probs: Tensor
    which: Literal["all"] | int

    def lift(self) -> Tensor:
        return mean_lift(self.copula, self.probs, self.indices, self.which)

    def table_lift(self) -> Tensor:
        # Not by `mean_lift`: it subtracts values of the CDF, and rare pairs lose their digits.
        categories = self.probs.shape[-1]
        orders = make_orders(categories, self.which, self.probs.device)
        p = self.probs.reshape(-1, categories).T.contiguous()
        found = lift_by_pairs(self.copula, orders, p, self.indices.unsqueeze(-1).flatten(1))
        return found.view(len(found), *self.probs.shape[:-1])


@dataclass(frozen=True)
class _InAveragedByOrder(Drawn):
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


def _choose(count: int, u: Tensor, generator: torch.Generator | None) -> Tensor:
    """The number ``[*batch]`` of one of the orders for each column of ``u [K, *batch]``."""
    choice = uniform(u.shape[1:], generator, u.dtype, u.device)
    return (choice * count).long().clamp_max(count - 1)


def _rotated(probs: Tensor, start: Tensor) -> Tensor:
    """``probs [*batch, C]`` in cyclic order from category ``start [*batch]`` on."""
    categories = torch.arange(probs.shape[-1], device=probs.device)
    return probs.gather(-1, (categories + start.unsqueeze(-1)) % probs.shape[-1])
