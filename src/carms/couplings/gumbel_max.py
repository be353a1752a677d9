"""Gumbel-max sampling with correlated noise (CARMS-G), and its joint table by quadrature."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from carms.copulas import Copula, Dirichlet, Gaussian, Independent
from carms.copulas.dirichlet import integer_power
from carms.core.checks.options import whole_number
from carms.core.checks.tensors import check_memory
from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.core.quadrature import gauss_laguerre, gauss_legendre
from carms.couplings.base import Coupling, chunk_length

__all__ = ["BiasedGumbelMax", "GumbelMax"]

# Work on tensors of so many bytes at a time: they fit a processor's cache.
_CHUNK = 1 << 19

# Single precision is enough for so many factors of the integrand: their rounding errors add up.
_SINGLE_FACTORS = 32

# N -> radial nodes, angular nodes, and the power that crowds these at the corners of the triangle.
# The integrand is nearly t exp(-t) along the radius and smooth across, the more so the larger N.
# Worst relative errors of a ratio, from one-hot to uniform probabilities: 6e-6 and 2e-8.
_SINGLE_NODES = {
    2: (16, 10, 3),
    3: (7, 5, 2),
    4: (6, 5, 2),
    5: (6, 5, 2),
    6: (6, 5, 2),
    7: (6, 4, 1),
}
_DOUBLE_NODES = {2: (40, 20, 4), 3: (16, 12, 3)}

# The most draws for an estimated table.
_MOST_EXTRA = 65_536


class GumbelMax(Coupling):
    """``argmax_c (log p_c - log(-log u_c))`` with a copula draw for each category.

    Any copula can be sampled. The joint table is known for ``Independent`` and for the plain
    ``Dirichlet``, where it is a two-dimensional integral over the arrival times of two races
    (``docs/mathematics/gumbel.md``), with a relative error below 1e-7 in double precision and
    1e-5 in single.

    Examples:
        >>> coupling = GumbelMax(Dirichlet(samples=3))
        >>> table = coupling.pmf(torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
        >>> table.sum(-1)
        tensor([0.2000, 0.3000, 0.5000], dtype=torch.float64)
    """

    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        # One switch for all categories: a draw is independent as a whole or not at all.
        batch, leading = probs.shape[:-1], probs.movedim(-1, 0)
        u = self._uniforms(leading.shape, (1, *batch), probs, generator)
        arrival = -u.log() / leading.to(u.dtype)
        # `argmin` is ten times slower than `min` here.
        indices = arrival.min(1).indices
        return indices, partial(self._lift, probs, indices)

    def _lift(self, probs: Tensor, indices: Tensor) -> Tensor:
        wide = precise_dtype(probs.device)
        if isinstance(self.copula, Independent):
            return torch.ones_like(take_pairs(indices)[0], dtype=wide)
        # With two samples these are all the same: u and 1 - u.
        plain = isinstance(self.copula, Dirichlet) and not self.copula.reflected
        if not plain and not (self.samples == 2 and isinstance(self.copula, Dirichlet | Gaussian)):
            raise ValueError(
                "the joint table of GumbelMax is known for Independent, for Dirichlet without "
                f"reflection, and for antithetic pairs, not for {self.copula}"
            )
        batch = probs.shape[:-1]
        nodes = _DOUBLE_NODES if probs.dtype == torch.float64 else _SINGLE_NODES
        categories = probs.shape[-1]
        if (self.samples - 1) * categories > _SINGLE_FACTORS:
            probs = probs.to(wide)
        probs = probs.reshape(-1, categories)
        probs = probs / probs.sum(-1, keepdim=True)
        indices = indices.unsqueeze(-1).flatten(1).T.contiguous()
        rule = _Rule(*nodes[min(self.samples, max(nodes))], probs)
        rows = chunk_length(len(probs), _CHUNK // (categories * rule.size * probs.itemsize))
        parts = [
            _dirichlet_lift(p, i, rule, self.samples)
            for p, i in zip(probs.split(rows), indices.split(rows), strict=True)
        ]
        lift = torch.cat(parts).T
        return lift.unflatten(1, batch) if batch else lift.squeeze(1)


class _Rule:
    """Radial nodes ``t``, angular nodes ``theta`` in (0, 1/2), and their weights."""

    def __init__(self, radial: int, angular: int, stretch: int, like: Tensor) -> None:
        t, t_weight = gauss_laguerre(radial)
        x, x_weight = gauss_legendre(angular)
        self.size = radial * angular
        self.t = t.to(like)
        self.t_weight = (t_weight * t.exp() / t).to(like)
        self.theta = (0.5 * x**stretch).to(like)
        self.theta_weight = (0.5 * stretch * x ** (stretch - 1) * x_weight).to(like)


def _dirichlet_lift(probs: Tensor, indices: Tensor, rule: _Rule, samples: int) -> Tensor:
    """The lift ``[V, pairs]`` of the pairs of ``indices [V, K]``: an integral over two races.

    Its integrand is ``prod_k S_k(x, y) (d log S_i / d log x) (d log S_j / d log y) / (p_i p_j)``,
    ``S_k = (x^r_k + y^r_k - 1)^(N-1)``, ``r_k = p_k / max p``, on the triangle ``x + y > 1``. There
    ``x = 1 - (1 - w) theta`` and ``y = w + (1 - w) theta``; its halves are mirror images, and
    ``w = exp(-t max p / (N-1))`` takes out the decay of the product.
    """
    categories, drawn = probs.shape[-1], indices.shape[-1]
    largest = probs.amax(-1, keepdim=True)
    rate = (samples - 1) / largest
    log_w = -rule.t / rate
    w, shrink = log_w.exp(), -torch.expm1(log_w)
    radial = (w * shrink * rate * rule.t_weight).unsqueeze(-1)
    x_short = shrink.unsqueeze(-1) * rule.theta
    y = x_short + w.unsqueeze(-1)
    # Powers of two are faster than those of e.
    logs = torch.log1p(-x_short) / math.log(2), y.log2()
    log_x, log_y = (side.flatten(1).unsqueeze(1) for side in logs)
    measure = (radial * rule.theta_weight / (y - y * x_short)).flatten(1)
    edge = w.unsqueeze(-1).expand_as(y).flatten(1).unsqueeze(1)

    def race(relative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_part = (relative.unsqueeze(-1) * log_x).exp2_()
        y_part = (relative.unsqueeze(-1) * log_y).exp2_()
        # x^r + y^r - 1 falls from 1 to w as r goes from 0 to 1; rounding must not go below.
        return x_part, y_part, torch.maximum((x_part - 1).add_(y_part), edge)

    relative = probs / largest
    x_part, y_part, both = race(relative)
    measure = (measure * integer_power(both.prod(1), samples - 1)).unsqueeze(1)
    if drawn < categories:
        x_part, y_part, both = race(relative.gather(1, indices))
        indices = torch.arange(drawn, device=probs.device).expand_as(indices)
    half = (x_part * measure).div_(both) @ (y_part / both).mT
    table = (half + half.mT).flatten(1)
    first, second = take_pairs(indices.T)
    return table.gather(1, (first * half.shape[-1] + second).T)


class BiasedGumbelMax(GumbelMax):
    """Gumbel-max with the paper's Monte Carlo table: **biased**, kept for comparison.

    The joint probability of a drawn pair is estimated by its frequency among the drawn samples
    themselves and ``extra`` further draws. Its reciprocal is not the reciprocal of the truth. That
    is what ``draw`` gives; ``pmf`` and ``pair_ratio`` are those of the exact table.

    Examples:
        >>> BiasedGumbelMax(Dirichlet(samples=3)).exact
        False
    """

    exact = False

    def __init__(self, copula: Copula, extra: int = 0) -> None:
        super().__init__(copula)
        self.extra = whole_number("extra", extra, most=_MOST_EXTRA)
        if self.extra < 0:
            raise ValueError(f"extra is a number of draws, got {extra}")

    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        shape = (self.extra + 1, self.samples, *probs.shape[:-1])
        check_memory("draws for the table", shape, 8, probs.device)
        indices, _ = super()._draw(probs, generator)
        others = [
            super(BiasedGumbelMax, self)._draw(probs, generator)[0] for _ in range(self.extra)
        ]
        return indices, partial(self._estimated_lift, probs, indices, [indices, *others])

    def _estimated_lift(self, probs: Tensor, indices: Tensor, sets: list[Tensor]) -> Tensor:
        p = probs.to(precise_dtype(probs.device))
        p = (p / p.sum(-1, keepdim=True)).movedim(-1, 0).gather(0, indices)
        frequency = torch.zeros((), dtype=p.dtype, device=p.device)
        for one in sets:
            counts = (indices.unsqueeze(1) == one).sum(1)
            first, second = take_pairs(counts.to(p.dtype))
            frequency = frequency + first * second
        first, second = take_pairs(p)
        pairs = self.samples * (self.samples - 1) * len(sets)
        return frequency / (pairs * first * second)
