"""Strata on a ring that is turned at random: no holes, and a closed form for every pair."""

import torch
from torch import Tensor

from carms.copulas.base import Copula
from carms.copulas.stratified import stratified_points
from carms.core.pairs import take_pairs

__all__ = ["Circular"]


class Circular(Copula):
    """``u_n = ((pi(n) + v_n) / N + t) mod 1``: one point in each of N strata, the ring turned.

    The density of a pair depends on its distance ``delta`` around the ring alone,
    ``N/(N-1) min(1, N delta, N (1 - delta))``. It vanishes only at distance zero, so every two
    categories can be drawn together whatever their order.

    Args:
        samples: number of uniforms in a draw N, at least 2.

    Examples:
        >>> u = Circular(samples=8).sample((1000,), torch.Generator().manual_seed(0))
        >>> bool(((u > 0) & (u < 1)).all())
        True
    """

    cheap_lift = True

    @property
    def uniforms(self) -> int:
        return 2 * self.samples + 1

    def transform(self, uniforms: Tensor) -> Tensor:
        keys, inside, turn = uniforms.split(self.samples)
        return stratified_points(keys, inside).add_(turn).frac_()

    def joint(self, x: Tensor, y: Tensor) -> Tensor:
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

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        # In place wherever it can be: new memory costs more than what is done with it.
        apart, centre_b = take_pairs(left + width / 2)
        apart.sub_(centre_b)
        # From one centre to the other, the short way round the ring.
        apart.sub_(apart.round())
        width_a, width_b = take_pairs(width)
        shorter = torch.minimum(width_a, width_b)
        both = width_a.add_(width_b)
        gap = apart.to(both.dtype).abs_().sub_(both, alpha=0.5).clamp_min_(0)
        longer = both - shorter
        # For two samples in one interval `rest` does not matter; it must not exceed a stratum.
        stratum = 1 / self.samples
        rest = both.add_(gap).add_(stratum - 1).clamp_min_(0).clamp_max_(stratum)
        return self._mean_density(gap, rest, shorter, longer)

    def lift_across(self, gaps: Tensor, width_a: Tensor, width_b: Tensor) -> Tensor:
        """``lift`` of two disjoint intervals by what lies between them.

        Args:
            gaps: ``[2, ...]``, from the one to the other one way round the ring and the other way.
            width_a: ``[...]``, the positive length of the one.
            width_b: ``[...]``, the positive length of the other.

        Examples:
            >>> gaps = torch.tensor([0.0, 0.5], dtype=torch.float64)
            >>> quarter = torch.tensor(0.25, dtype=torch.float64)
            >>> Circular(samples=4).lift_across(gaps, quarter, quarter)
            tensor(1.1111, dtype=torch.float64)
        """
        gap, other = torch.minimum(*gaps), torch.maximum(*gaps)
        rest = (1 / self.samples - other).clamp_min_(0)
        shorter, longer = torch.minimum(width_a, width_b), torch.maximum(width_a, width_b)
        return self._mean_density(gap, rest, shorter, longer)

    def lift_within(self, width: Tensor) -> Tensor:
        """How much likelier than by chance two samples fall in one and the same interval.

        Args:
            width: the positive length of the interval, at most 1.

        Examples:
            >>> Circular(samples=4).lift_within(torch.tensor([0.15, 1.0]))
            tensor([0.2667, 1.0000])
        """
        count, stratum = self.samples, 1 / self.samples
        # The density is lower at distances below 1/N and above 1 - 1/N.
        near = torch.minimum(width, torch.full_like(width, stratum)) / width
        rest = (width - 1 + stratum).clamp_min(0) / width
        dents = near * (1 - near / 3) + (count / 3) * width * rest**3
        lift = torch.where(width <= stratum, count / 3 * width, 1 - dents)
        return lift * (count / (count - 1))

    def _mean_density(self, gap: Tensor, rest: Tensor, shorter: Tensor, longer: Tensor) -> Tensor:
        """The mean of the density over two intervals, by the ``gap`` on the short way between them,
        and the ``rest``, if any, by which the gap on the long way falls short of a stratum.

        The density is N/(N-1), less a dent on the short way and, where there is a rest, one on the
        long way. No two nearly equal numbers are subtracted, so no digits are lost however short
        the intervals are. ``gap`` and ``longer`` are overwritten.
        """
        count = self.samples
        # The dent on the long way never reaches across the longer interval.
        dents = _cubes(rest, torch.minimum(rest, shorter))
        # On the short way x, the place in the shorter interval, runs through up to three parts:
        # first all of the longer one is in the dent (`inner`), then some is (`edge`), then none.
        reach = (1 / count - gap).clamp_min_(0)
        inner = torch.minimum((reach - longer).clamp_min_(0), shorter)
        edge = torch.minimum(reach, shorter).sub_(inner)
        dents.add_(_cubes(reach.sub_(inner), edge)).div_(longer)
        found = (shorter - inner).sub_(dents, alpha=count / 6).div_(shorter)
        slope = gap.add_(longer.add_(inner), alpha=0.5).mul_(inner.div_(shorter))
        return found.add_(slope, alpha=count).mul_(count / (count - 1))


def _cubes(high: Tensor, step: Tensor) -> Tensor:
    """``high^3 - (high - step)^3`` with all its digits, in the memory of ``step <= high``."""
    product = (high - step).mul_(high).mul_(step)
    return step.pow_(3).add_(product, alpha=3)
