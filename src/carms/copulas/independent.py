"""No dependence at all: the copula under which CARMS is LOORF."""

import math

import torch
from torch import Tensor

from carms.copulas.base import Copula
from carms.core.pairs import take_pairs

__all__ = ["Independent"]


class Independent(Copula):
    """Independent uniforms.

    Args:
        samples: number of uniforms in a draw, at least 2.

    Examples:
        >>> copula = Independent(samples=3)
        >>> copula.sample((5,)).shape
        torch.Size([5, 3])
    """

    pair_power = math.inf
    cheap_lift = True

    def transform(self, uniforms: Tensor) -> Tensor:
        return uniforms

    def joint(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        return torch.ones_like(take_pairs(width)[0])
