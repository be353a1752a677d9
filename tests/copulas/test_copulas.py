import itertools
import math

import pytest
import torch
from helpers import (
    COPULAS,
    Moments,
    assert_frequencies,
    dirichlet_cdf,
    dirichlet_probs,
    exact_circular_lift,
    exact_lift,
    gaussian_cdf,
    generator,
    reflected_cdf,
    z_limit,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified

GRID = torch.tensor([0.03, 0.1, 0.25, 0.5, 0.7, 0.9, 0.98], dtype=torch.float64)


@pytest.fixture(params=list(COPULAS))
def name(request):
    return request.param


@pytest.fixture(params=[2, 3, 5, 10])
def copula(request, name):
    return COPULAS[name](request.param)


def grid_pairs():
    with_ends = torch.cat((torch.zeros(1), GRID, torch.ones(1))).double()
    return torch.meshgrid(with_ends, with_ends, indexing="ij")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_have_shape_and_dtype(copula, dtype):
    for shape in ((), (4,), (2, 0, 3)):
        u = copula.sample(shape, generator(), dtype=dtype)
        assert u.shape == (*shape, copula.samples)
        assert u.dtype == dtype
        assert u.device.type == "cpu"


def test_samples_are_in_the_default_dtype_unless_told(copula):
    assert copula.sample((2,)).dtype == torch.get_default_dtype()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_are_strictly_inside_the_unit_interval(copula, dtype):
    u = copula.sample((200_000,), generator(), dtype=dtype)
    assert u.min() > 0
    assert u.max() < 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_stay_inside_when_the_random_numbers_are_extreme(copula, dtype, monkeypatch):
    # The ends of what torch.rand can return come up once in millions of draws.
    source, rand = generator(), torch.rand

    def extremes(*args, **kwargs):
        kwargs["generator"] = source
        u = rand(*args, **kwargs)
        largest = 1 - torch.finfo(u.dtype).eps / 2
        return torch.where(u < 0.4, 0.0, torch.where(u < 0.8, largest, u))

    monkeypatch.setattr(torch, "rand", extremes)
    u = copula.sample((5_000,), dtype=dtype)
    assert u.isfinite().all()
    assert u.min() > 0
    assert u.max() < 1


def test_a_generator_reproduces_and_moves_on(copula):
    source = generator(3)
    before = torch.get_rng_state()
    first, second = copula.sample((10,), source), copula.sample((10,), source)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, copula.sample((10,), generator(3)))
    assert not torch.equal(first, second)


def test_marginals_are_uniform(copula):
    draws = 100_000
    u = copula.sample((draws,), generator(1), dtype=torch.float64).sort(0).values
    steps = torch.arange(1, draws + 1, dtype=torch.float64).unsqueeze(-1) / draws
    distance = torch.maximum((steps - u).amax(0), (u - steps + 1 / draws).amax(0))
    # Kolmogorov's distribution: exceeded with probability 2 exp(-2 x^2), here 1e-7.
    assert distance.max() * math.sqrt(draws) < 2.9


def test_cdf_matches_frequencies_at_all_pairs_of_positions(copula):
    draws, count = 200_000, copula.samples
    u = copula.sample((draws,), generator(2), dtype=torch.float64)
    below = (u.unsqueeze(-1) <= GRID).float().flatten(1)
    together = (below.T @ below).double() / draws
    together = together.view(count, len(GRID), count, len(GRID)).transpose(1, 2)
    first, second = torch.triu_indices(count, count, 1)
    expected = copula.cdf(GRID.unsqueeze(-1), GRID.unsqueeze(0))
    assert_frequencies(
        together[first, second], expected.clamp_min(0).expand(len(first), -1, -1), draws
    )


def test_three_positions_are_exchangeable(name):
    # Pairs are seen by the CDF; a third sample could still tell positions apart.
    for count in (3, 5):
        u = COPULAS[name](count).sample((200_000,), generator(4), dtype=torch.float64)
        levels = torch.tensor([0.35, 0.6, 0.85], dtype=torch.float64)
        positions = list(itertools.permutations(range(count), 3))
        hits = torch.stack([(u[:, list(p)] < levels).all(-1) for p in positions], -1).double()
        moments = Moments()
        moments.add(hits[:, 1:] - hits[:, :1])
        assert moments.z(0.0).max() < z_limit(len(positions))


def test_cdf_has_uniform_margins_and_is_symmetric(copula):
    a, b = grid_pairs()
    cdf = copula.cdf(a, b)
    torch.testing.assert_close(cdf[:, -1], a[:, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(cdf[-1], b[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(cdf[:, 0], torch.zeros_like(cdf[:, 0]), rtol=0, atol=1e-15)
    torch.testing.assert_close(cdf[0], torch.zeros_like(cdf[0]), rtol=0, atol=1e-15)
    torch.testing.assert_close(cdf, cdf.T, rtol=0, atol=1e-14)


def test_cdf_gives_no_rectangle_negative_mass(copula):
    ticks = torch.linspace(0, 1, 41, dtype=torch.float64)
    mass = copula.cdf(ticks.unsqueeze(-1), ticks.unsqueeze(0)).diff(dim=0).diff(dim=1)
    assert mass.min() > -1e-13
    torch.testing.assert_close(mass.sum(), torch.ones_like(mass.sum()), rtol=0, atol=1e-12)


def test_cdf_leaves_its_arguments_alone(copula):
    a, b = grid_pairs()
    kept = a.clone(), b.clone()
    copula.cdf(a, b)
    assert torch.equal(a, kept[0])
    assert torch.equal(b, kept[1])


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
@pytest.mark.parametrize(("reflected", "formula"), [(False, dirichlet_cdf), (True, reflected_cdf)])
def test_dirichlet_cdf_is_the_formula(samples, reflected, formula):
    a, b = grid_pairs()
    expected = [formula(samples, x, y) for x, y in zip(a.flatten(), b.flatten(), strict=True)]
    torch.testing.assert_close(
        Dirichlet(samples, reflected).cdf(a, b).flatten(),
        torch.tensor(expected, dtype=torch.float64),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("samples", [2, 3, 5, 10])
def test_gaussian_cdf_against_conditioning(samples):
    expected = [[gaussian_cdf(samples, float(x), float(y)) for y in GRID] for x in GRID]
    torch.testing.assert_close(
        Gaussian(samples).cdf(GRID.unsqueeze(-1), GRID.unsqueeze(0)),
        torch.tensor(expected, dtype=torch.float64),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("samples", [2, 3, 4, 5, 10, 100])
def test_gaussian_cdf_at_the_orthant(samples):
    half = torch.tensor(0.5, dtype=torch.float64)
    expected = 0.25 + math.asin(-1 / (samples - 1)) / (2 * math.pi)
    assert Gaussian(samples).cdf(half, half).item() == pytest.approx(expected, abs=1e-14)


def test_two_samples_of_dirichlet_and_gaussian_are_antithetic():
    for copula in (Dirichlet(2), Dirichlet(2, reflected=True), Gaussian(2)):
        u = copula.sample((100,), generator(), dtype=torch.float64)
        torch.testing.assert_close(u.sum(-1), torch.ones(100, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [2, 7, 16, 17, 300])
def test_stratified_puts_one_sample_in_each_stratum(samples, dtype):
    u = Stratified(samples).sample((1000,), generator(), dtype=dtype).double()
    inside = (u * samples).sort(-1).values - torch.arange(samples)
    assert inside.min() > -1e-4
    assert inside.max() < 1 + 1e-4


def test_equal_random_numbers_do_not_share_a_stratum(monkeypatch):
    # In single precision two uniforms may be equal; here most of them are.
    rand = torch.rand

    def coarse(*args, **kwargs):
        return rand(*args, **kwargs).mul(2).floor().add(0.5).div(2)

    monkeypatch.setattr(torch, "rand", coarse)
    strata = (Stratified(6).sample((100,), dtype=torch.float32) * 6).floor().sort(-1).values
    assert torch.equal(strata, torch.arange(6.0).expand(100, 6))


def test_circular_samples_are_strata_of_a_turned_ring():
    u = Circular(7).sample((1000,), generator(), dtype=torch.float64).sort(-1).values
    distances = torch.cat((u.diff(dim=-1), 1 + u[:, :1] - u[:, -1:]), -1)
    assert distances.max() < 2 / 7
    # Without the turn, the first stratum would end at 1/7 always.
    assert u[:, 0].max() > 1 / 7


def partition(batch, categories, seed=0, floor=0.02):
    """Intervals ``left, width [K, batch]`` that cover [0, 1]."""
    width = dirichlet_probs(1.0, batch, categories, seed=seed, floor=floor).T.contiguous()
    return width.cumsum(0) - width, width


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


def test_lift_does_not_depend_on_the_order_of_the_intervals(copula):
    left, width = partition(50, 2)
    swapped = copula.lift(left.flip(0).contiguous(), width.flip(0).contiguous())
    torch.testing.assert_close(copula.lift(left, width), swapped, rtol=1e-9, atol=1e-10)


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


@pytest.mark.parametrize("samples", [1, 0, -3])
def test_too_few_samples(name, samples):
    with pytest.raises(ValueError, match=rf"at least 2 samples, got samples={samples}"):
        COPULAS[name](samples)


def test_a_copula_without_a_hole_gives_mass_to_every_rectangle(copula):
    # Holes can be as small as the corners; rectangles off the diagonal, where no mass need be.
    ends = torch.tensor([0, 5e-4, 1e-3], dtype=torch.float64)
    middle = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    ticks = torch.cat((ends, middle, 1 - ends.flip(0)))
    mass = copula.cdf(ticks.unsqueeze(-1), ticks.unsqueeze(0)).diff(dim=0).diff(dim=1)
    off = ~torch.eye(len(mass), dtype=torch.bool)
    assert (copula.hole is None) == bool((mass[off] > 1e-15).all())


def test_cdf_beyond_the_unit_interval_and_in_half_precision(copula):
    a = torch.tensor([-0.1, 0.0, 0.25, 1.0, 1.2], dtype=torch.float16)
    b = torch.tensor(0.5, dtype=torch.float16)
    found = copula.cdf(a, b)
    assert found.dtype == torch.float16
    expected = copula.cdf(a.double().clamp(0, 1), b.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_circular_pairs_within_one_interval(samples):
    """Against the CDF, of intervals that start at zero: where they start does not matter."""
    copula = Circular(samples)
    width = torch.tensor([0.001, 0.05, 0.1, 0.3, 0.5, 0.95, 1.0], dtype=torch.float64)
    torch.testing.assert_close(
        copula.lift_within(width), copula.cdf(width, width) / width.square(), rtol=1e-6, atol=0
    )
