"""How much likelier than by chance two samples fall in two intervals."""

import itertools

import pytest
import torch
from copula_kinds import each_copula
from helpers import (
    dirichlet_probs,
    exact_circular_lift,
    exact_lift,
)

from carms.copulas import Circular, Dirichlet, Independent
from carms.copulas.names import COPULAS


def partition(batch, categories, seed=0, floor=0.02):
    """Intervals ``left, width [K, batch]`` that cover [0, 1]."""
    width = dirichlet_probs(1.0, batch, categories, seed=seed, floor=floor).T.contiguous()
    return width.cumsum(0) - width, width


@each_copula
def test_lift_is_the_mass_of_a_rectangle_over_that_of_chance(copula):
    left, width = partition(50, 6)
    right = (left + width).clamp_max(1)
    first, second = torch.triu_indices(6, 6, 1)
    mass = (
        copula.cdf(right[first], right[second])
        - copula.cdf(right[first], left[second])
        - copula.cdf(left[first], right[second])
        + copula.cdf(left[first], left[second])
    )
    expected = mass / (width[first] * width[second])
    torch.testing.assert_close(copula.lift(left, width), expected, rtol=1e-9, atol=1e-10)


@each_copula
def test_lift_does_not_depend_on_the_order_of_the_intervals(copula):
    left, width = partition(50, 2)
    swapped = copula.lift(left.flip(0).contiguous(), width.flip(0).contiguous())
    torch.testing.assert_close(copula.lift(left, width), swapped, rtol=1e-9, atol=1e-10)


@each_copula
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lift_within_one_interval_is_a_positive_number(copula, dtype):
    for size in (1.0, 0.3, 1e-3, 1e-12, 1e-30):
        left = torch.tensor([0.0, 0.0], dtype=torch.float64)
        lift = copula.lift(left, torch.full_like(left, size, dtype=dtype))
        assert lift.isfinite().all()
        assert (lift > 0).all()


def test_independent_lift_is_one():
    left, width = partition(10, 4)
    assert torch.equal(Independent(3).lift(left, width), torch.ones(6, 10).double())


def circular_lift(samples, a, b, dtype=torch.float64):
    left = torch.tensor([a[0], b[0]], dtype=torch.float64)
    width = torch.tensor([a[1], b[1]], dtype=dtype)
    return Circular(samples).lift(left, width).item()


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
def test_circular_lift_is_exact_for_ordinary_intervals(samples):
    left, width = partition(40, 5, floor=1e-4)
    lift = Circular(samples).lift(left, width)
    pairs = list(itertools.combinations(range(5), 2))
    for column in range(40):
        intervals = [(left[k, column].item(), width[k, column].item()) for k in range(5)]
        for row, (i, j) in enumerate(pairs):
            exact = float(exact_circular_lift(samples, intervals[i], intervals[j]))
            assert lift[row, column].item() == pytest.approx(exact, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
@pytest.mark.parametrize("tiny", [1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize("other", ["as tiny", "half as tiny", 1e-4, 0.2, 0.7])
def test_circular_lift_loses_no_digits_for_tiny_neighbours(samples, tiny, other):
    size = {"as tiny": tiny, "half as tiny": tiny / 2}.get(other, other)
    intervals = (0.0, tiny), (tiny, size)
    exact = float(exact_circular_lift(samples, *intervals))
    assert exact > 0
    assert circular_lift(samples, *intervals) == pytest.approx(exact, rel=1e-9, abs=0)


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
@pytest.mark.parametrize("tiny", [1e-12, 1e-30])
@pytest.mark.parametrize("distance", [1e-25, 1e-9, 1e-3, 0.07, 0.5])
def test_circular_lift_loses_no_digits_for_tiny_intervals_apart(samples, tiny, distance):
    intervals = (0.0, tiny), (max(distance, 3 * tiny), tiny)
    exact = float(exact_circular_lift(samples, *intervals))
    assert circular_lift(samples, *intervals) == pytest.approx(exact, rel=1e-9, abs=0)


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
def test_circular_lift_sees_neighbours_across_the_end(samples):
    for size in (2.0**-10, 2.0**-30):
        intervals = (0.0, size), (1 - size, size)
        exact = float(exact_circular_lift(samples, *intervals))
        assert circular_lift(samples, *intervals) == pytest.approx(exact, rel=1e-6, abs=0)


@pytest.mark.parametrize("samples", [2, 5, 10, 100])
def test_circular_lift_of_single_precision_lengths(samples):
    for start, size in ((0.25, 0.2), (0.25, 1e-2), (0.25, 1e-4), (0.0, 1e-12), (0.0, 1e-30)):
        size = torch.tensor(size).item()
        intervals = (start, size), (start + size, size)
        exact = float(exact_circular_lift(samples, *intervals))
        lift = circular_lift(samples, *intervals, dtype=torch.float32)
        assert lift == pytest.approx(exact, rel=1e-5, abs=0)


@pytest.mark.parametrize("samples", [2, 3, 4, 9, 100, 1000])
@pytest.mark.parametrize("kind", ["dirichlet", "dirichlet-reflected", "stratified"])
@pytest.mark.parametrize("size", [0.3, 2.0**-10, 2.0**-30, 2.0**-50])
def test_lift_loses_no_digits_however_short_the_intervals_are(kind, samples, size):
    ends = [0.0, size, 2 * size, 0.53, 0.53 + size, 1 - 2 * size, 1 - size, 1.0]
    intervals = list(itertools.pairwise(sorted(ends)))
    left, right = torch.tensor(intervals, dtype=torch.float64).T
    lift = COPULAS[kind](samples).lift(left, right - left, right)
    for found, pair in zip(lift, itertools.combinations(intervals, 2), strict=True):
        expected = exact_lift(kind, samples, *pair)
        assert found.item() == pytest.approx(expected, rel=1e-8, abs=0), pair


def test_lift_of_intervals_too_short_for_their_square():
    left, width = torch.tensor([[0.2, 0.7], [1e-200, 1e-300]], dtype=torch.float64)
    for samples in (3, 8):
        ordinary = Dirichlet(samples).lift(left, torch.full_like(left, 1e-9))
        torch.testing.assert_close(Dirichlet(samples).lift(left, width), ordinary)


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_circular_pairs_within_one_interval(samples):
    """Against the CDF, of intervals that start at zero: where they start does not matter."""
    copula = Circular(samples)
    width = torch.tensor([0.001, 0.05, 0.1, 0.3, 0.5, 0.95, 1.0], dtype=torch.float64)
    torch.testing.assert_close(
        copula.lift_within(width), copula.cdf(width, width) / width.square(), rtol=1e-6, atol=0
    )
