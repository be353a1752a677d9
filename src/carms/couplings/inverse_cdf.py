"""Inverse-CDF sampling from correlated uniforms (CARMS-I, CARMS-S)."""

from typing import Any, Literal, cast

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.checks.options import whole_number
from carms.couplings.base import Coupling, Drawn
from carms.couplings.orders import Averaged, AveragedByOrder, GivenOrder, LargestFirst, Order

__all__ = ["InverseCDF", "Orderings"]

Orderings = Literal["auto", "all", "largest-first", "one", "given"] | int

# Up to this number of categories, a few orders are best averaged over at once.
_FEW = 32


class InverseCDF(Coupling):
    """Lay the categories side by side on [0, 1] and see where the copula's uniforms fall.

    A copula with a hole never draws certain pairs in one order of the categories. One of several
    orders is then drawn for each variable, and the joint table is the average over all of them.

    Args:
        copula: the source of correlated uniforms.
        orderings: ``"all"``: the paper's ``C (C - 1) / 2`` orders, enough for every copula here.
            ``"largest-first"``, or ``"one"`` for short: cyclic, from the most probable category on;
            enough for Dirichlet as long as ``C <= 2^(N-1)``. A number M: the given order and M - 1
            fixed shuffles.
            ``"given"``: the order as it is. ``"auto"``: ``"given"`` if the copula has no hole, else
            ``"all"``.
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
        orderings = _check_orderings(orderings)
        if orderings == "auto":
            orderings = "given" if copula.hole is None else "all"
        self.orderings = orderings

    def _check_ratios(self, categories: int) -> None:
        hole = self.copula.hole
        if hole is None or self.epsilon > 0 or self.orderings == "all":
            return
        most = hole.categories if self.orderings == "largest-first" else 2
        if categories > most:
            raise ValueError(
                f"{self.copula} with orderings={self.orderings!r} never draws some pairs of "
                f"{categories} categories (it is enough for {most} categories), which would bias "
                "the gradient; use orderings='all', epsilon > 0 or the Circular copula"
            )

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> Drawn:
        u = self._uniforms(probs.shape[:-1], probs.shape[:-1], probs, generator)
        return self._order(probs.shape[-1]).draw(probs, u, generator)

    def _from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        return self._order(probs.shape[-1]).from_indices(probs, indices)

    def _order(self, categories: int) -> Order:
        """The object that draws and lifts in the way of ``orderings``."""
        copula, orderings = self.copula, self.orderings
        if orderings == "all":
            return Averaged(copula, "all")
        if orderings == "largest-first":
            return LargestFirst(copula)
        if isinstance(orderings, str) or orderings == 1:
            return GivenOrder(copula)
        return (
            Averaged(copula, orderings)
            if categories <= _FEW
            else AveragedByOrder(copula, orderings)
        )


def _check_orderings(orderings: Any) -> Orderings:
    """The way of ordering, if it is one of the names or a number."""
    if not isinstance(orderings, str):
        return whole_number("orderings", orderings, least=1)
    if orderings == "one":
        return "largest-first"
    if orderings not in ("auto", "all", "largest-first", "given"):
        raise ValueError(
            f"orderings is 'auto', 'all', 'largest-first', 'given' or a number, got {orderings!r}"
        )
    return cast(Orderings, orderings)
