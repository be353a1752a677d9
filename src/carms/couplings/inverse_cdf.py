"""Inverse-CDF sampling from correlated uniforms (CARMS-I, CARMS-S)."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from carms.copulas import Copula, Dirichlet
from carms.core.checks.options import whole_number
from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.core.random import uniform
from carms.couplings.base import Coupling, chunk_length
from carms.couplings.orderings import later_pairs, make_orders, pair_numbers, prefixes
from carms.sampling.partition import Located, Partition

__all__ = ["InverseCDF", "Orderings"]

Orderings = Literal["auto", "all", "one", "given"] | int

# Work on so many (position, ordering, variable) triples at a time.
_CHUNK = 1 << 19

# And on so many pairs of categories, in all orders together.
_PAIRS = 1 << 22

# Up to here a few orders are best averaged over at once.
_FEW = 32

# Beyond this number of categories, the cells of all orders would take gigabytes.
_LARGEST_TABLE = 64


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
        epsilon: probability of an independent draw; see ``Coupling``.

    Examples:
        >>> from carms.copulas import Circular
        >>> coupling = InverseCDF(Circular(samples=4))
        >>> coupling.pmf(torch.tensor([0.5, 0.5], dtype=torch.float64))
        tensor([[0.1944, 0.3056],
                [0.3056, 0.1944]], dtype=torch.float64)
    """

    def __init__(self, copula: Copula, orderings: Orderings = "auto", epsilon: float = 0.0) -> None:
        super().__init__(copula, epsilon)
        if isinstance(orderings, str):
            if orderings not in ("auto", "all", "one", "given"):
                raise ValueError(
                    f"orderings is 'auto', 'all', 'one', 'given' or a number, got {orderings!r}"
                )
        else:
            orderings = whole_number("orderings", orderings)
            if orderings < 1:
                raise ValueError(f"a number of orderings is at least 1, got {orderings}")
        if orderings == "auto":
            orderings = "given" if copula.full_support else "all"
        self.orderings = orderings

    def pmf(self, probs: Tensor) -> Tensor:
        # A category may never be drawn twice, and rounding must not make that less than never.
        return super().pmf(probs).clamp_min_(0)

    def _check_reachable(self, categories: int) -> None:
        if (
            self.epsilon > 0
            or self.copula.full_support
            or self.orderings == "all"
            or categories == 2
        ):
            return
        most = 2 ** min(self.samples - 1, 62)
        why = "its holes hide them"
        if self.orderings == "one" and isinstance(self.copula, Dirichlet):
            if categories <= most:
                return
            why = f"one ordering is enough for {most} categories"
        raise ValueError(
            f"{self.copula} with orderings={self.orderings!r} never draws some pairs of "
            f"{categories} categories ({why}), which would bias the gradient; use "
            "orderings='all', epsilon > 0 or the Circular copula"
        )

    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        u = self._uniforms(probs.shape[:-1], probs.shape[:-1], probs, generator)
        categories = probs.shape[-1]
        if self._mixture is None:
            start = self._start(probs)
            partition = Partition.of(_rotated(probs, start))
            located = partition.find(u)
            indices = located.indices
            if start is not None:
                indices = (indices + start) % categories
            return indices, partial(self._lift_in_order, partition, located)
        orders = make_orders(categories, self._mixture, probs.device)
        choice = uniform(probs.shape[:-1], generator, u.dtype, u.device)
        choice = (choice * len(orders)).long().clamp_max(len(orders) - 1)
        if self._by_order(categories):
            partitions = _in_every_order(probs, orders)
            indices = torch.zeros_like(u, dtype=torch.long)
            for number, (order, partition) in enumerate(zip(orders, partitions, strict=True)):
                indices = torch.where(choice == number, order[partition.category(u)], indices)
            return indices, partial(self._lift_by_order, orders, partitions, indices)
        order = orders.index_select(0, choice.flatten()).view(probs.shape)
        place = Partition.of(probs.gather(-1, order)).category(u)
        indices = order.movedim(-1, 0).gather(0, place)
        return indices, partial(self._lift, probs, indices)

    def _lift(self, probs: Tensor, indices: Tensor) -> Tensor:
        if self._mixture is not None and self._by_order(probs.shape[-1]):
            orders = make_orders(probs.shape[-1], self._mixture, probs.device)
            return self._lift_by_order(orders, _in_every_order(probs, orders), indices)
        if self._mixture is not None:
            return _mean_lift(self.copula, probs, indices, self._mixture)
        start = self._start(probs)
        places = indices if start is None else (indices - start) % probs.shape[-1]
        partition = Partition.of(_rotated(probs, start))
        return self._lift_in_order(partition, partition.interval(places))

    def _lift_of_all(self, probs: Tensor) -> Tensor:
        which, categories = self._mixture, probs.shape[-1]
        if which is None or self._by_order(categories):
            return super()._lift_of_all(probs)
        # Not by differences of the CDF, which have all digits of likely pairs alone.
        orders = make_orders(categories, which, probs.device)
        everyone = torch.arange(categories, device=probs.device).unsqueeze(-1)
        p = probs.reshape(-1, categories).T.contiguous()
        found = _lift_by_pairs(self.copula, orders, p, everyone.expand_as(p))
        return found.view(len(found), *probs.shape[:-1])

    @property
    def _mixture(self) -> Literal["all"] | int | None:
        """Which set of orders to choose from, or None if there is just one."""
        if self.orderings == "all" or (isinstance(self.orderings, int) and self.orderings > 1):
            return self.orderings
        return None

    def _by_order(self, categories: int) -> bool:
        """Whether one order at a time is the fastest: for a few of them, of many categories."""
        return isinstance(self.orderings, int) and categories > _FEW

    def _lift_by_order(
        self, orders: Tensor, partitions: list[Partition], indices: Tensor
    ) -> Tensor:
        """The mean over orders, of which each has its partition."""
        places = [order.argsort()[indices] for order in orders]
        lifts = [
            self._lift_in_order(partition, partition.interval(place))
            for partition, place in zip(partitions, places, strict=True)
        ]
        return torch.stack(lifts).mean(0)

    def _start(self, probs: Tensor) -> Tensor | None:
        """The category ``[*batch]`` at which the single order starts, None for the first."""
        if self.orderings != "one":
            return None
        # The hole is at the lower end, or at the upper one when reflected: put the largest there.
        largest = probs.max(-1).indices
        at_the_end = isinstance(self.copula, Dirichlet) and self.copula.reflected
        return (largest + 1) % probs.shape[-1] if at_the_end else largest

    def _lift_in_order(self, partition: Partition, located: Located) -> Tensor:
        """The lift of categories by their intervals in one order."""
        if self.copula.cheap_lift:
            return self.copula.lift(located.left, located.width)
        return self.copula.lift(*partition.ends(located.indices))

    def __repr__(self) -> str:
        mixture = f", epsilon={self.epsilon}" if self.epsilon else ""
        return f"InverseCDF({self.copula}, orderings={self.orderings!r}{mixture})"


def _rotated(probs: Tensor, start: Tensor | None) -> Tensor:
    """``probs [*batch, C]`` in cyclic order from category ``start [*batch]`` on."""
    if start is None:
        return probs
    categories = torch.arange(probs.shape[-1], device=probs.device)
    return probs.gather(-1, (categories + start.unsqueeze(-1)) % probs.shape[-1])


def _in_every_order(probs: Tensor, orders: Tensor) -> list[Partition]:
    """Of ``probs [*batch, C]``, one for each of ``orders [M, C]``."""
    # `index_select` is many times faster on a matrix.
    rows = probs.reshape(-1, probs.shape[-1])
    return [Partition.of(rows.index_select(1, order).view(probs.shape)) for order in orders]


def _mean_lift(
    copula: Copula, probs: Tensor, indices: Tensor, which: Literal["all"] | int
) -> Tensor:
    """``[K (K - 1) / 2, *batch]``: the lift of each pair, averaged over a set of orders."""
    batch, categories, drawn = probs.shape[:-1], probs.shape[-1], len(indices)
    p = probs.reshape(-1, categories).T.contiguous().to(precise_dtype(probs.device))
    p = p / p.sum(0)
    index = indices.unsqueeze(-1).flatten(1)
    orders = make_orders(categories, which, probs.device)
    # A table costs C^2/2 evaluations of the CDF, the drawn pairs alone 2 N^2.
    if copula.cheap_lift or categories > min(2 * drawn, _LARGEST_TABLE):
        lift = partial(_lift_by_pairs, copula, orders)
    else:
        starts = prefixes(categories, which, probs.device)
        later = later_pairs(categories, which, probs.device)
        lift = partial(_lift_by_table, copula, starts, later, probs.dtype)
    columns = chunk_length(p.shape[1], _CHUNK // orders.numel())
    chunks = zip(p.split(columns, 1), index.split(columns, 1), strict=True)
    parts = [lift(*chunk) for chunk in chunks]
    found = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
    return found.unflatten(1, batch) if batch else found.squeeze(1)


def _lift_by_pairs(copula: Copula, orders: Tensor, p: Tensor, indices: Tensor) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]``: the intervals of the drawn categories in every order."""
    drawn = len(indices)
    total = torch.zeros((), dtype=p.dtype, device=p.device)
    # Of many categories, some of the orders at a time.
    pairs = max(1, drawn**2 * p.shape[1])
    for some in orders.split(chunk_length(len(orders), _PAIRS // pairs)):
        widths = p[some]
        ends = widths.cumsum(1)
        left = (ends - widths).clamp_min(0)
        place = some.argsort(1)[:, indices]
        left = left.gather(1, place).movedim(1, 0).contiguous()
        width = p.gather(0, indices).unsqueeze(1).expand_as(left).contiguous()
        right = None
        if not copula.cheap_lift:
            right = (ends / ends[:, -1:]).gather(1, place).movedim(1, 0).contiguous()
        total = total + copula.lift(left, width, right).sum(1)
    return total / len(orders)


def _lift_by_table(
    copula: Copula,
    starts: tuple[Tensor, Tensor],
    later: tuple[Tensor, ...],
    dtype: torch.dtype,
    p: Tensor,
    indices: Tensor,
) -> Tensor:
    """``[pairs, V]`` from ``p [C, V]``: the whole table, its CDF once per pair of boundaries."""
    categories = p.shape[0]
    members, sets = starts
    ends = (members @ p).clamp_max_(1).index_fill_(0, sets[-1], 1)
    ends = copula._coordinate(ends)[sets]
    first, second = take_pairs(p)
    # And one row for pairs within one category, of which any positive number will do.
    table = torch.cat((torch.zeros_like(first), torch.ones_like(p[:1])))
    before = None
    for place, pairs in enumerate(later):
        # P(u <= end of this place, u' in each later one); less the same for the place before.
        joint = copula._joint(ends[place], ends[place:])
        slices = joint.diff(dim=0)
        if before is None:
            table.index_add_(0, pairs, slices.flatten(0, 1))
        else:
            table.index_add_(0, pairs, before[1:].sub_(slices).flatten(0, 1), alpha=-1)
        before = slices
    # Of either category being the earlier one, in so many orders.
    orders, info = sets.shape[1], torch.finfo(p.dtype)
    # Of the rarest pairs rounding leaves no digit: they get a mass, and so a ratio, of its size.
    table[:-1].clamp_min_(orders * info.eps)
    table[:-1].div_(first.mul_(second).mul_(orders).clamp_min_(info.tiny))
    # A row for any two categories in either order: this is smaller than what is looked up in it.
    square = table.to(dtype).index_select(0, pair_numbers(categories, p.device))
    first, second = take_pairs(indices)
    return square.gather(0, first.mul_(categories).add_(second))
