"""The copula of the paper: gaps of a Dirichlet vector."""

import torch
from torch import Tensor

from carms.copulas.antithetic import antithetic_lift
from carms.copulas.base import Copula, right_ends
from carms.copulas.hole import Hole
from carms.core.checks.options import check_flag
from carms.core.pairs import take_pairs
from carms.core.powers import integer_power

__all__ = ["Dirichlet"]


def _share_of_power(share: Tensor, exponent: int) -> Tensor:
    """``1 - (1 - share)^exponent`` of numbers in [0, 1] with all digits, however small they are."""
    if exponent == 1:
        return share
    if exponent % 3 == 0:
        root = _share_of_power(share, exponent // 3)
        return (3 - root).mul_(root).neg_().add_(3).mul_(root)
    if exponent % 2 == 0:
        root = _share_of_power(share, exponent // 2)
        return (2 - root).mul_(root)
    return (1 - share).mul_(_share_of_power(share, exponent - 1)).add_(share)


class Dirichlet(Copula):
    """Negatively dependent uniforms from ``d ~ Dirichlet(1, ..., 1)``: ``u = (1 - d)^(N - 1)``.

    Among Archimedean copulas it has the strongest negative dependence. Two samples are never both
    close to zero: the CDF ``max(0, a^(1/(N-1)) + b^(1/(N-1)) - 1)^(N-1)`` has a hole there, which
    is why ``InverseCDF`` mixes orderings of the categories.

    Args:
        samples: number of uniforms in a draw N, at least 2. With two, the draw is ``(u, 1 - u)``.
        reflected: use ``1 - u``; the hole is then where both are close to one.

    References:
        - Lee and Ahn (2014) [lee2014]
        - Dimitriev and Zhou (2021) [dimitriev2021arms]

    Examples:
        >>> copula = Dirichlet(samples=2)
        >>> bool(torch.allclose(copula.sample((5,)).sum(-1), torch.ones(5)))
        True
    """

    def __init__(self, samples: int, reflected: bool = False) -> None:
        super().__init__(samples)
        check_flag("reflected", reflected)
        self.reflected = reflected
        # There are no more categories than a tensor can have.
        self.hole = Hole(corner=1 if reflected else 0, categories=2 ** min(self.samples - 1, 62))
        # Reflection leaves antithetic pairs as they are.
        self.pair_power = None if reflected and self.samples > 2 else self.samples - 1

    def transform(self, uniforms: Tensor) -> Tensor:
        # Exponentials but for their sign, which drops out.
        logs = uniforms.log_()
        gaps = logs.div_(logs.sum(0))
        if not self.reflected:
            return integer_power(1 - gaps, self.samples - 1, in_place=True)
        return -torch.expm1((self.samples - 1) * torch.log1p(-gaps))

    def coordinate(self, a: Tensor) -> Tensor:
        # A half less each, so that the sum of two is what the CDF is a power of.
        power = 1 / (self.samples - 1)
        if self.reflected:
            return torch.log1p(-a).mul_(power).exp_().sub_(0.5)
        # To the base of two it is faster.
        return a.log2().mul_(power).exp2_().sub_(0.5)

    def joint(self, x: Tensor, y: Tensor) -> Tensor:
        power = self.samples - 1
        both_beyond = integer_power((x + y).clamp_min_(0), power, in_place=True)
        if not self.reflected:
            return both_beyond
        return 1 - integer_power(x + 0.5, power) - integer_power(y + 0.5, power) + both_beyond

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        """The lift by the CDF ``t^m``, ``m = N - 1``, of ``t = a^(1/m) + b^(1/m) - 1``.

        A rectangle has ``t`` at its upper corner, less by ``h`` and ``k`` at the next ones, and by
        both at the lower one. With ``h`` and ``k`` relative to ``t`` and ``s(x) = 1 - (1 - x)^m``
        its mass is ``t^m [s(h) s(k) - (1 - s(h)) (1 - s(k)) s(h k / ((1 - h) (1 - k)))]``, where
        what is subtracted is less than half of the rest.
        """
        right = right_ends(left, width, right)
        if self.samples == 2:
            return antithetic_lift(left, width, right)
        power = self.samples - 1
        start, end = (1 - right, 1 - left) if self.reflected else (left, right)
        tiny = torch.finfo(width.dtype).tiny
        # Shorter intervals have the same lift, but the product of two lengths would underflow.
        width = width.clamp_min(tiny**0.5)
        log_root = torch.maximum(end, width).log_().div_(power)
        part = torch.where(start > 0, (width / end).clamp_max_(1), 1)
        step = torch.log1p(part.neg_()).div_(power).expm1_().neg_().mul_(log_root.exp())
        (corner, other), (a, b) = take_pairs(torch.expm1(log_root)), take_pairs(step)
        width_a, width_b = take_pairs(width)
        equal = (corner == other) & (width_a == width_b)
        corner = corner.add_(other).add_(1).clamp_min_(tiny)
        a, b = a.div_(corner).clamp_max_(1), b.div_(corner).clamp_max_(1)
        share_a, share_b = _share_of_power(a, power), _share_of_power(b, power)
        both = (1 - a).mul_(1 - b).clamp_min_(tiny)
        lost = _share_of_power(a.mul_(b).div_(both).clamp_max_(1), power)
        lost.mul_(1 - share_a).mul_(1 - share_b)
        found = share_a.mul(share_b).sub_(lost).div_(width_a).div_(width_b)
        return found.mul_(integer_power(corner, power, in_place=True)).add_(equal)
