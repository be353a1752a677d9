"""The lift of two categories that win races with correlated noise, by quadrature."""

import math

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.core.powers import integer_power
from carms.core.products import exact_product
from carms.core.quadrature import gauss_laguerre, gauss_legendre
from carms.couplings.base import chunk_length

__all__ = ["race_lift"]

# Number of bytes of a tensor to work on at a time: they fit a processor's cache.
_CHUNK = 1 << 19

# Single precision is enough for this number of factors of the integrand: their rounding errors
# add up.
_SINGLE_FACTORS = 32

# m + 1 -> radial nodes, angular nodes, and the power that crowds these at the corners of the
# triangle. The integrand is nearly t exp(-t) along the radius and smooth across, the more so the
# larger m. Worst relative errors of a ratio, from one-hot to uniform probabilities: 6e-6 and 2e-8.
_SINGLE_NODES = {
    2: (16, 10, 3),
    3: (7, 5, 2),
    4: (6, 5, 2),
    5: (6, 5, 2),
    6: (6, 5, 2),
    7: (6, 4, 1),
}
_DOUBLE_NODES = {2: (40, 20, 4), 3: (16, 12, 3)}


def race_lift(probs: Tensor, indices: Tensor, power: int) -> Tensor:
    """The lift ``[K (K - 1) / 2, *batch]`` of the pairs of ``indices [K, *batch]``.

    Args:
        probs: ``[*batch, C]``, not necessarily normalised.
        indices: the categories that won.
        power: the ``pair_power`` of the copula that the noise of each category comes from.
    """
    batch, categories = probs.shape[:-1], probs.shape[-1]
    nodes = _DOUBLE_NODES if probs.dtype == torch.float64 else _SINGLE_NODES
    if power * categories > _SINGLE_FACTORS:
        probs = probs.to(precise_dtype(probs.device))
    probs = probs.reshape(-1, categories)
    probs = probs / probs.sum(-1, keepdim=True)
    indices = indices.unsqueeze(-1).flatten(1).T.contiguous()
    rule = _Rule(*nodes[min(power + 1, max(nodes))], probs)
    rows = chunk_length(len(probs), _CHUNK // (categories * rule.size * probs.itemsize))
    parts = [
        _lift(p, i, rule, power)
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


def _lift(probs: Tensor, indices: Tensor, rule: _Rule, power: int) -> Tensor:
    """The lift ``[V, pairs]`` of the pairs of ``indices [V, K]``: an integral over two races.

    Its integrand is ``prod_k S_k(x, y) (d log S_i / d log x) (d log S_j / d log y) / (p_i p_j)``,
    ``S_k = (x^r_k + y^r_k - 1)^m``, ``r_k = p_k / max p``, on the triangle ``x + y > 1``. There
    ``x = 1 - (1 - w) theta`` and ``y = w + (1 - w) theta``; its halves are mirror images, and
    ``w = exp(-t max p / m)`` takes out the decay of the product.
    """
    categories, drawn = probs.shape[-1], indices.shape[-1]
    largest = probs.amax(-1, keepdim=True)
    rate = power / largest
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

    # Quoted, because the compiler of torch 2.6 cannot trace the annotation.
    def race(relative: Tensor) -> "tuple[Tensor, Tensor, Tensor]":
        x_part = (relative.unsqueeze(-1) * log_x).exp2_()
        y_part = (relative.unsqueeze(-1) * log_y).exp2_()
        # x^r + y^r - 1 falls from 1 to w as r goes from 0 to 1; rounding must not go below.
        return x_part, y_part, torch.maximum((x_part - 1).add_(y_part), edge)

    relative = probs / largest
    x_part, y_part, both = race(relative)
    measure = (measure * integer_power(both.prod(1), power)).unsqueeze(1)
    if drawn < categories:
        x_part, y_part, both = race(relative.gather(1, indices))
        indices = torch.arange(drawn, device=probs.device).expand_as(indices)
    half = exact_product((x_part * measure).div_(both), (y_part / both).mT)
    table = (half + half.mT).flatten(1)
    first, second = take_pairs(indices.T)
    return table.gather(1, (first * half.shape[-1] + second).T)
