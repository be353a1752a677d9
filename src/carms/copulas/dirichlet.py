"""The copula of the paper: gaps of a Dirichlet vector."""

import torch
from torch import Tensor

from carms.copulas.base import Copula, Uniforms
from carms.options import check_flag

__all__ = ["Dirichlet", "integer_power"]


def integer_power(base: Tensor, exponent: int, in_place: bool = False) -> Tensor:
    """``base^exponent`` by squares, cubes and products: ``torch.pow`` is fast for 2 and 3 alone."""
    if exponent == 1:
        return base
    for factor in (3, 2):
        if exponent % factor == 0:
            root = integer_power(base, exponent // factor, in_place)
            return root.pow(factor) if root is base and not in_place else root.pow_(factor)
    return integer_power(base, exponent - 1).mul_(base)


class Dirichlet(Copula):
    """Negatively dependent uniforms from ``d ~ Dirichlet(1, ..., 1)``: ``u = (1 - d)^(N - 1)``.

    Among Archimedean copulas it has the strongest negative dependence. Two samples are never both
    close to zero: the CDF ``max(0, a^(1/(N-1)) + b^(1/(N-1)) - 1)^(N-1)`` has a hole there, which
    is why ``InverseCDF`` mixes orderings of the categories.

    Args:
        samples: uniforms per draw. With two, the draw is ``(u, 1 - u)``.
        reflected: use ``1 - u``; the hole is then where both are close to one.

    References:
        - W. Lee and J. Y. Ahn (2014), On the multidimensional extension of countermonotonicity.
        - A. Dimitriev and M. Zhou (2021), ARMS, arXiv:2105.14141.

    Examples:
        >>> copula = Dirichlet(samples=2)
        >>> bool(torch.allclose(copula.sample((5,)).sum(-1), torch.ones(5)))
        True
    """

    def __init__(self, samples: int, reflected: bool = False) -> None:
        super().__init__(samples)
        check_flag("reflected", reflected)
        self.reflected = reflected

    @property
    def full_support(self) -> bool:
        return False

    def _points(self, uniforms: Uniforms) -> Tensor:
        # Exponentials but for their sign, which drops out.
        logs = uniforms(self.samples).log_()
        gaps = logs.div_(logs.sum(0))
        if not self.reflected:
            return integer_power(1 - gaps, self.samples - 1, in_place=True)
        return -torch.expm1((self.samples - 1) * torch.log1p(-gaps))

    def _coordinate(self, a: Tensor) -> Tensor:
        # A half less each, so that the sum of two is what the CDF is a power of.
        power = 1 / (self.samples - 1)
        if self.reflected:
            return torch.log1p(-a).mul_(power).exp_().sub_(0.5)
        # To the base of two it is faster.
        return a.log2().mul_(power).exp2_().sub_(0.5)

    def _joint(self, x: Tensor, y: Tensor) -> Tensor:
        power = self.samples - 1
        both_beyond = integer_power((x + y).clamp_min_(0), power, in_place=True)
        if not self.reflected:
            return both_beyond
        return 1 - integer_power(x + 0.5, power) - integer_power(y + 0.5, power) + both_beyond

    def lift(self, left: Tensor, width: Tensor) -> Tensor:
        info = torch.finfo(left.dtype)
        if not self.reflected and info.tiny ** (1 / (self.samples - 1)) < info.eps / 8:
            # The logarithm of zero is slow, and the root of this is zero too beside a half.
            left = left.clamp_min(info.tiny)
        return super().lift(left, width)

    def __repr__(self) -> str:
        return f"Dirichlet(samples={self.samples}, reflected={self.reflected})"
