"""One uniform in each of N strata."""

import torch
from torch import Tensor

from carms.copulas.base import Copula, right_ends
from carms.copulas.hole import Hole
from carms.core.pairs import take_pairs

__all__ = ["Stratified", "stratified_points"]

# Up to this number of samples, comparing every two is faster than sorting.
_FEW = 16


def stratified_points(keys: Tensor, inside: Tensor) -> Tensor:
    """One point in each of N equal strata, from uniforms ``[N, ...]`` for the order of the strata,
    and for where in its own each point is.
    """
    return (_permutation(keys) + inside).div_(len(keys))


def _permutation(keys: Tensor) -> Tensor:
    """A random permutation of the numbers below N for each column of uniforms ``[N, ...]``."""
    if len(keys) > _FEW or keys.dtype != torch.float64:
        return keys.argsort(0)
    # How many are smaller than each; in double precision two are as good as never equal.
    return (keys > keys.unsqueeze(1)).sum(0, dtype=torch.uint8)


class Stratified(Copula):
    """``u_n = (pi(n) + v_n) / N`` with a random permutation ``pi`` and uniform ``v_n``.

    Two samples never share a stratum, so a single ordering of the categories loses the pairs that
    do: ``InverseCDF`` mixes orderings. ``Circular`` has no such holes.

    Args:
        samples: number of uniforms in a draw N, at least 2.

    Examples:
        >>> u = Stratified(samples=4).sample((2,))
        >>> (u * 4).long().sort(-1).values
        tensor([[0, 1, 2, 3],
                [0, 1, 2, 3]])
    """

    hole = Hole()

    @property
    def uniforms(self) -> int:
        return 2 * self.samples

    def transform(self, uniforms: Tensor) -> Tensor:
        return stratified_points(*uniforms.chunk(2))

    def joint(self, x: Tensor, y: Tensor) -> Tensor:
        strata = self.samples
        low, high = torch.minimum(x, y), torch.maximum(x, y)
        whole = (low * strata).floor().clamp_max(strata - 1)
        # Overlap of [0, low] and [0, high] with the stratum in which `low` ends.
        start = whole / strata
        last = (low - start) * (high - start).clamp_max(1 / strata)
        same_stratum = whole / strata**2 + last
        return (x * y - same_stratum) * (strata / (strata - 1))

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        strata = self.samples
        right = right_ends(left, width, right)
        left_a, left_b = take_pairs(left)
        width_a, width_b = take_pairs(width.clamp_min(torch.finfo(width.dtype).tiny))
        below = left_a < left_b
        low, high = torch.minimum(left_a, left_b), torch.maximum(left_a, left_b)
        # Two intervals share the stratum in which the upper one begins, if any. They are drawn
        # together unless both samples are in it; these are the parts of the two outside it.
        whole = (high * strata).floor_().clamp_max_(strata - 1)
        before = (whole / strata).sub_(low).div_(torch.where(below, width_a, width_b)).clamp_(0, 1)
        after = torch.maximum(*take_pairs(right)).sub_((whole + 1).div_(strata))
        after = after.div_(torch.where(below, width_b, width_a)).clamp_(0, 1)
        outside = before.add_(after.mul_(1 - before))
        return outside.mul_(strata / (strata - 1)).add_((left_a == left_b) & (width_a == width_b))
