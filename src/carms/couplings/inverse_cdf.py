"""Inverse-CDF sampling from correlated uniforms (CARMS-I, CARMS-S)."""

from typing import Literal

import torch
from torch import Tensor

from carms.copulas import Circular, Copula, Dirichlet
from carms.couplings.base import Coupling
from carms.couplings.orderings import mixed_orderings, paper_orderings
from carms.couplings.partition import Located, Partition
from carms.pairs import take_pairs
from carms.randomness import precise_dtype

__all__ = ["InverseCDF", "Orderings"]

Orderings = Literal["auto", "all", "one", "given"] | int

# Work on so many (position, ordering, variable) triples at a time: they fit a processor's cache.
_CHUNK = 1 << 17


class InverseCDF(Coupling):
    """Lay the categories side by side on [0, 1] and see where the copula's uniforms fall.

    A copula with holes never draws certain pairs in one order of the categories. One of several
    orders is then drawn for each variable, and the joint table is the average over all of them.

    Args:
        copula: the source of correlated uniforms.
        orderings: ``"all"``: the paper's ``C (C - 1) / 2`` orders, enough for every copula here.
            ``"one"``: cyclic, from the most probable category on; enough for Dirichlet as long as
            ``C <= 2^(N-1)``. A number M: the given order and M - 1 fixed shuffles. ``"given"``:
            the order as it is. ``"auto"``: ``"given"`` if the copula has no holes, else ``"all"``.
        epsilon: probability of an independent draw; see :class:`Coupling`.

    >>> from carms.copulas import Circular
    >>> coupling = InverseCDF(Circular(samples=4))
    >>> coupling.pmf(torch.tensor([0.5, 0.5], dtype=torch.float64))
    tensor([[0.2083, 0.2917],
            [0.2917, 0.2083]], dtype=torch.float64)
    """

    def __init__(self, copula: Copula, orderings: Orderings = "auto", epsilon: float = 0.0) -> None:
        super().__init__(copula, epsilon)
        if isinstance(orderings, int):
            if orderings < 1:
                raise ValueError(f"a number of orderings is at least 1, got {orderings}")
        elif orderings not in ("auto", "all", "one", "given"):
            raise ValueError(
                f"orderings is 'auto', 'all', 'one', 'given' or a number, got {orderings!r}"
            )
        if orderings == "auto":
            orderings = "given" if copula.full_support else "all"
        self.orderings = orderings

    def _check_reachable(self, categories: int) -> None:
        if (
            self.epsilon > 0
            or self.copula.full_support
            or self.orderings == "all"
            or categories == 2
        ):
            return
        enough = 2 ** (self.samples - 1)
        if self.orderings == "one" and isinstance(self.copula, Dirichlet) and categories <= enough:
            return
        why = (
            f"one ordering is enough for at most {enough} categories"
            if (self.orderings == "one" and isinstance(self.copula, Dirichlet))
            else "its holes hide some pairs"
        )
        raise ValueError(
            f"{self.copula} with orderings={self.orderings!r} never draws some pairs of {categories} "
            f"categories ({why}), which would bias the gradient: use orderings='all', "
            f"epsilon > 0 or the Circular copula"
        )

    def _orders(self, categories: int, device: torch.device) -> Tensor | None:
        """``[M, C]``, or None for a single order that needs no table."""
        if self.orderings == "all":
            return paper_orderings(categories).to(device)
        if isinstance(self.orderings, int) and self.orderings > 1:
            return mixed_orderings(categories, self.orderings).to(device)
        return None

    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        orders = self._orders(probs.shape[-1], probs.device)
        u = self._uniforms(probs.shape[:-1], generator, probs)
        if orders is None:
            partition = Partition(probs)
            origin = self._origin(partition)
            located = partition.find(u if origin is None else (u + origin).frac())
            return located.indices, self._lift_of(located, origin)
        choice = torch.rand(probs.shape[:-1], generator=generator, device=probs.device)
        order = orders[(choice * len(orders)).long().clamp_max(len(orders) - 1)]
        place = Partition(probs.gather(-1, order)).find(u).indices
        return order.gather(-1, place), None

    def _lift(self, probs: Tensor, indices: Tensor) -> Tensor:
        orders = self._orders(probs.shape[-1], probs.device)
        if orders is None:
            partition = Partition(probs)
            return self._lift_of(partition.interval(indices), self._origin(partition))
        return _mean_lift(self.copula, probs, indices, orders)

    def _origin(self, partition: Partition) -> Tensor | None:
        """Where on the ring of the given order the single order starts, ``[*batch, 1]``."""
        if self.orderings != "one":
            return None
        # The hole is at the lower end, or at the upper one when reflected: put the largest there.
        largest = partition.interval(partition.probs.argmax(-1, keepdim=True))
        at_the_end = isinstance(self.copula, Dirichlet) and self.copula.reflected
        return largest.left + largest.width if at_the_end else largest.left

    def _lift_of(self, located: Located, origin: Tensor | None) -> Tensor:
        left = located.left if origin is None else _turned_back(located, origin)
        return self.copula.lift(
            left.movedim(-1, 0).contiguous(), located.width.movedim(-1, 0).contiguous()
        )

    def __repr__(self) -> str:
        mixture = f", epsilon={self.epsilon}" if self.epsilon else ""
        return f"InverseCDF({self.copula}, orderings={self.orderings!r}{mixture})"


def _turned_back(located: Located, origin: Tensor) -> Tensor:
    """Left ends measured from ``origin``; the middle tells on which side of it an interval is."""
    left = located.left - origin
    return torch.where(left + located.width / 2 < 0, left + 1, left.clamp_min(0))


def _mean_lift(copula: Copula, probs: Tensor, indices: Tensor, orders: Tensor) -> Tensor:
    """``[K (K - 1) / 2, *batch]``: the lift of each pair, averaged over the orders."""
    batch, categories, drawn = probs.shape[:-1], probs.shape[-1], indices.shape[-1]
    p = probs.reshape(-1, categories).T.to(precise_dtype(probs.device))
    p = p / p.sum(0)
    index = indices.reshape(-1, drawn).T
    # A table costs C^2/2 evaluations of the CDF, the drawn pairs alone 2 N^2.
    tabulate = not isinstance(copula, Circular) and categories <= 2 * drawn
    method = _lift_by_table if tabulate else _lift_by_pairs
    columns = max(1, _CHUNK // orders.numel())
    parts = [
        method(copula, p_part, index_part, orders)
        for p_part, index_part in zip(p.split(columns, 1), index.split(columns, 1), strict=True)
    ]
    return torch.cat(parts, 1).unflatten(1, batch) if batch else parts[0].squeeze(1)


def _lift_by_pairs(copula: Copula, p: Tensor, indices: Tensor, orders: Tensor) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]``: the intervals of the drawn categories in every order."""
    widths = p[orders]
    left = (widths.cumsum(1) - widths).clamp_min(0)
    place = orders.argsort(1)[:, indices]
    left = left.gather(1, place).movedim(1, 0)
    width = p.gather(0, indices).unsqueeze(1).expand_as(left)
    return copula.lift(left.contiguous(), width.contiguous()).mean(1)


def _lift_by_table(copula: Copula, p: Tensor, indices: Tensor, orders: Tensor) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]``: the whole table, its CDF once per pair of boundaries."""
    categories, variables = p.shape
    ends = p[orders.T].cumsum(0).clamp_max(1)
    ends[-1] = 1
    ends = copula._coordinate(ends)
    table, above = p.new_zeros(categories * categories, variables), None
    for row in range(categories - 1):
        # P(u <= end of `row`, u' in each later place), then u in `row` itself by difference.
        slices = copula._joint(ends[row], ends[row:]).diff(dim=0)
        mass = slices if above is None else slices - above[1:]
        cells = orders[:, row] * categories + orders[:, row + 1 :].T
        table = table.index_add(0, cells.flatten(), mass.flatten(0, 1))
        above = slices
    table = table.unflatten(0, (categories, categories))
    table = (table + table.transpose(0, 1)).flatten(0, 1)
    first, second = take_pairs(indices)
    first_p, second_p = take_pairs(p.gather(0, indices))
    return table.gather(0, first * categories + second) / (first_p * second_p * len(orders))
