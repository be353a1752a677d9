"""Equicorrelated normals, pushed as far apart as N of them can be."""

import math

import torch
from torch import Tensor

from carms.copulas.antithetic import antithetic_lift
from carms.copulas.base import Copula, right_ends
from carms.copulas.hole import Hole
from carms.core.pairs import take_pairs
from carms.core.quadrature import gauss_legendre

__all__ = ["Gaussian"]

# The standard normal density vanishes in float64 beyond this quantile.
_FAR = 40.0


class Gaussian(Copula):
    """Uniforms from normals with correlation ``-1/(N - 1)``, the least that N of them allow.

    The CDF of two of them is Plackett's integral over the correlation, evaluated by 20
    Gauss-Legendre nodes to rounding. With two samples the draw is ``(u, 1 - u)``.

    Args:
        samples: number of uniforms in a draw N, at least 2.

    Examples:
        >>> copula = Gaussian(samples=4)
        >>> half = torch.tensor(0.5, dtype=torch.float64)
        >>> round(copula.cdf(half, half).item(), 6)  # 1/4 + asin(-1/3) / (2 pi)
        0.195913
    """

    def __init__(self, samples: int) -> None:
        super().__init__(samples)
        if self.samples == 2:
            self.hole, self.pair_power = Hole(), 1

    def transform(self, uniforms: Tensor) -> Tensor:
        normals = torch.special.ndtri(uniforms)
        spread = normals - normals.mean(0)
        scale = math.sqrt(self.samples / (self.samples - 1))
        u: Tensor = torch.special.ndtr(scale * spread)
        return u

    def coordinate(self, a: Tensor) -> Tensor:
        return a if self.samples == 2 else torch.special.ndtri(a).clamp(-_FAR, _FAR)

    def joint(self, x: Tensor, y: Tensor) -> Tensor:
        if self.samples == 2:
            return (x + (y - 1)).clamp_min(0)
        independent: Tensor = torch.special.ndtr(x) * torch.special.ndtr(y)
        return independent - self._deficit(x, y) * self._scale

    @property
    def _scale(self) -> float:
        return math.asin(1 / (self.samples - 1)) / (2 * math.pi)

    def _deficit(self, x: Tensor, y: Tensor) -> Tensor:
        """The CDF of independent samples less this one, divided by ``_scale``."""
        angle = math.asin(-1 / (self.samples - 1))
        nodes, weights = (rule.to(x) for rule in gauss_legendre(20))
        squares, product = (x * x + y * y) / 2, x * y
        integral = torch.zeros_like(product)
        for sine, weight in zip((angle * nodes).sin(), weights, strict=True):
            integral += weight * ((product * sine - squares) / (1 - sine * sine)).exp()
        return integral

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        right = right_ends(left, width, right)
        if self.samples == 2:
            return antithetic_lift(left, width, right)
        low_a, low_b = take_pairs(self.coordinate(left))
        high_a, high_b = take_pairs(self.coordinate(right))
        lack = self._deficit(high_a, high_b).sub_(self._deficit(high_a, low_b))
        lack.sub_(self._deficit(low_a, high_b)).add_(self._deficit(low_a, low_b))
        width_a, width_b = take_pairs(width)
        info = torch.finfo(width.dtype)
        chance = (width_a * width_b).clamp_min_(info.tiny).div_(self._scale)
        # Rounding leaves no digit of the rarest pairs: they get a mass of its size.
        found = torch.maximum(1 - lack.div_(chance), info.eps / chance)
        return found.add_((low_a == low_b) & (width_a == width_b))
