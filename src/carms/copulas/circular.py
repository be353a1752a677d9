"""Strata on a ring that is turned at random: no holes, and a closed form for every pair."""

import torch
from torch import Tensor

from carms.copulas.base import Copula, Uniforms
from carms.copulas.stratified import stratified_points
from carms.pairs import take_pairs

__all__ = ["Circular"]


class Circular(Copula):
    """``u_n = ((pi(n) + v_n) / N + t) mod 1``: one point in each of N strata, the ring turned.

    The density of a pair depends on its distance ``delta`` around the ring alone,
    ``N/(N-1) min(1, N delta, N (1 - delta))``. It vanishes only at distance zero, so every two
    categories can be drawn together whatever their order.

    >>> u = Circular(samples=8).sample((1000,), torch.Generator().manual_seed(0))
    >>> bool(((u > 0) & (u < 1)).all())
    True
    """

    closed_form = True

    def _sample(self, uniforms: Uniforms) -> Tensor:
        return stratified_points(uniforms, self.samples).add_(uniforms(1)).frac_()

    def _joint(self, x: Tensor, y: Tensor) -> Tensor:
        count = self.samples
        dents = x * y + 2 * self._dent(torch.ones_like(x))
        for turn in (-1, 0, 1):
            dents = dents + self._dent(x - y + turn) - self._dent(x + turn) - self._dent(turn - y)
        return dents * (count / (count - 1))

    def _dent(self, distance: Tensor) -> Tensor:
        """Second antiderivative of ``max(0, 1 - N |t|)``, the dent in the density at zero."""
        size = distance.abs()
        near = size.clamp_max(1 / self.samples)
        return near.square() * (0.5 - near * (self.samples / 6)) + (size - near) * (
            0.5 / self.samples
        )

    def lift(self, left: Tensor, width: Tensor) -> Tensor:
        # In units of a stratum, so that the density is N/(N-1) min(1, distance).
        count = self.samples
        width = width * count
        centre_a, centre_b = take_pairs(left * count + width / 2)
        width_a, width_b = take_pairs(width)
        apart, half = (centre_a - centre_b).abs_(), (width_a + width_b).mul_(0.5)
        # The gaps one way round the ring and the other.
        gaps = torch.stack((apart.to(width.dtype), (count - apart).to(width.dtype)))
        return self._lift_in_strata(gaps.sub_(half).clamp_min_(0), width_a, width_b)

    def lift_across(self, gaps: Tensor, width_a: Tensor, width_b: Tensor) -> Tensor:
        """:meth:`lift` of two disjoint intervals by what lies between them.

        Args:
            gaps: ``[2, ...]``, from the one to the other one way round the ring and the other way.
            width_a: ``[...]``, the positive length of the one.
            width_b: ``[...]``, the positive length of the other.

        >>> gaps = torch.tensor([0.0, 0.5], dtype=torch.float64)
        >>> quarter = torch.tensor(0.25, dtype=torch.float64)
        >>> Circular(samples=4).lift_across(gaps, quarter, quarter)
        tensor(1.1111, dtype=torch.float64)
        """
        count = self.samples
        return self._lift_in_strata(gaps * count, width_a * count, width_b * count)

    def _lift_in_strata(self, gaps: Tensor, width_a: Tensor, width_b: Tensor) -> Tensor:
        share = _mean_slope(gaps, torch.minimum(width_a, width_b), torch.maximum(width_a, width_b))
        # One of the two is at least a half: subtract the one from that, not from a rounded sum.
        small, large = torch.minimum(*share), torch.maximum(*share)
        return large.sub_(1).add_(small).mul_(self.samples / (self.samples - 1))


def _mean_slope(gap: Tensor, shorter: Tensor, longer: Tensor) -> Tensor:
    """Mean of ``min(1, gap + x + y)`` over ``0 < x < shorter`` and ``0 < y < longer``.

    ``x`` runs through up to three parts: first every ``y`` is on the slope (``inner``), then some
    are (``edge``), then none is. No two nearly equal numbers are subtracted, so no digits are lost
    however short the intervals are.
    """
    reach = (1 - gap).clamp_min_(0)
    inner = torch.minimum((reach - longer).clamp_min_(0), shorter)
    edge = torch.minimum(reach, shorter).sub_(inner)
    far = reach.sub_(inner)
    near = far - edge
    dent = (far + near).mul_(far).add_(near.mul_(near)).div_(longer * 6)
    slope = torch.add(gap, inner + longer, alpha=0.5)
    inner.div_(shorter)
    return (1 - inner).sub_(edge.div_(shorter).mul_(dent)).add_(inner.mul_(slope))
