"""Gumbel-max sampling with correlated noise (CARMS-G)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.checks.options import whole_number
from carms.core.checks.tensors import check_memory
from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.core.softmax import normalised
from carms.couplings.base import Coupling, Drawn
from carms.couplings.race_lift import race_lift

__all__ = ["BiasedGumbelMax", "GumbelMax"]

# The most draws for an estimated table.
_MOST_EXTRA = 65_536


class GumbelMax(Coupling):
    """``argmax_c (log p_c - log(-log u_c))`` with a copula draw for each category.

    Any copula can be sampled. The joint table is known for copulas with a ``pair_power``, such as
    ``Independent`` and the plain ``Dirichlet``. It is a two-dimensional integral over the arrival
    times of two races (``docs/mathematics/gumbel.md``), with a relative error below 1e-7 in double
    precision and 1e-5 in single.

    Args:
        copula: the source of correlated uniforms.
        epsilon: probability of an independent draw; see ``Coupling``.

    Examples:
        >>> from carms.copulas import Dirichlet
        >>> coupling = GumbelMax(Dirichlet(samples=3))
        >>> table = coupling.pmf(torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
        >>> table.sum(-1)
        tensor([0.2000, 0.3000, 0.5000], dtype=torch.float64)
    """

    def _check_ratios(self, categories: int) -> None:
        _power_of_pairs(self.copula)

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> Drawn:
        return self._from_indices(probs, self._winners(probs, generator))

    def _from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        return _Raced(indices, self.copula, probs)

    def _winners(self, probs: Tensor, generator: torch.Generator | None) -> Tensor:
        # One switch for all categories: a draw is independent as a whole or not at all.
        batch, leading = probs.shape[:-1], probs.movedim(-1, 0)
        u = self._uniforms(leading.shape, (1, *batch), probs, generator)
        arrival = -u.log() / leading.to(u.dtype)
        # `argmin` is ten times slower than `min` here.
        return arrival.min(1).indices


class BiasedGumbelMax(GumbelMax):
    """Gumbel-max with the paper's Monte Carlo table: **biased**, kept for comparison.

    The joint probability of a drawn pair is estimated by its frequency among the drawn samples
    themselves and ``extra`` further draws. Its reciprocal is not the reciprocal of the truth. That
    is what ``draw`` gives; ``pmf`` and ``pair_ratio`` are those of the exact table.

    Args:
        copula: the source of correlated uniforms.
        extra: number of further draws for the table, at most 65,536.

    Examples:
        >>> from carms.copulas import Dirichlet
        >>> BiasedGumbelMax(Dirichlet(samples=3)).exact
        False
    """

    exact = False

    def __init__(self, copula: Copula, extra: int = 0) -> None:
        super().__init__(copula)
        self.extra = whole_number("extra", extra, least=0, most=_MOST_EXTRA)

    def _check_ratios(self, categories: int) -> None:
        pass  # frequencies stand for the table

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> Drawn:
        shape = (self.extra + 1, self.samples, *probs.shape[:-1])
        check_memory("draws for the table", shape, 8, probs.device)
        draws = [self._winners(probs, generator) for _ in range(self.extra + 1)]
        return _WithFrequencies(draws[0], probs, draws)


def _power_of_pairs(copula: Copula) -> float:
    """The ``pair_power`` of a copula, if the joint table is known for it."""
    power = copula.pair_power
    if power is None or (power != math.inf and power % 1):
        raise ValueError(
            "the joint table of GumbelMax is known for Independent, for Dirichlet without "
            "reflection, for antithetic pairs and for others with a whole pair_power, not for "
            f"{copula}"
        )
    return power


@dataclass(frozen=True)
class _Raced(Drawn):
    """Categories of ``probs [*batch, C]`` that won their races."""

    indices: Tensor
    copula: Copula
    probs: Tensor

    def lift(self) -> Tensor:
        power = _power_of_pairs(self.copula)
        if power == math.inf:
            first, _ = take_pairs(self.indices)
            return torch.ones_like(first, dtype=precise_dtype(first.device))
        return race_lift(self.probs, self.indices, int(power))


@dataclass(frozen=True)
class _WithFrequencies(Drawn):
    """Categories of ``probs [*batch, C]``, and the draws whose frequencies stand for the table."""

    indices: Tensor
    probs: Tensor
    draws: list[Tensor]

    def lift(self) -> Tensor:
        count = len(self.indices)
        p = normalised(self.probs).movedim(-1, 0).gather(0, self.indices)
        frequency = torch.zeros((), dtype=p.dtype, device=p.device)
        for draw in self.draws:
            counts = (self.indices.unsqueeze(1) == draw).sum(1)
            first, second = take_pairs(counts.to(p.dtype))
            frequency = frequency + first * second
        first, second = take_pairs(p)
        return frequency / (count * (count - 1) * len(self.draws) * first * second)
