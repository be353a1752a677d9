"""Samples of copulas."""

import itertools
import math

import pytest
import torch
from copula_kinds import each_copula, each_name
from helpers import (
    Moments,
    generator,
    z_limit,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Stratified
from carms.copulas.names import COPULAS


@each_copula
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_have_shape_and_dtype(copula, dtype):
    for shape in ((), (4,), (2, 0, 3)):
        u = copula.sample(shape, generator(), dtype=dtype)
        assert u.shape == (*shape, copula.samples)
        assert u.dtype == dtype
        assert u.device.type == "cpu"


@each_copula
def test_samples_are_in_the_default_dtype_unless_told(copula):
    assert copula.sample((2,)).dtype == torch.get_default_dtype()


@each_copula
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_are_strictly_inside_the_unit_interval(copula, dtype):
    u = copula.sample((200_000,), generator(), dtype=dtype)
    assert u.min() > 0
    assert u.max() < 1


@each_copula
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


@each_copula
def test_a_generator_reproduces_and_moves_on(copula):
    source = generator(3)
    before = torch.get_rng_state()
    first, second = copula.sample((10,), source), copula.sample((10,), source)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, copula.sample((10,), generator(3)))
    assert not torch.equal(first, second)


@each_copula
def test_marginals_are_uniform(copula):
    draws = 100_000
    u = copula.sample((draws,), generator(1), dtype=torch.float64).sort(0).values
    steps = torch.arange(1, draws + 1, dtype=torch.float64).unsqueeze(-1) / draws
    distance = torch.maximum((steps - u).amax(0), (u - steps + 1 / draws).amax(0))
    # Kolmogorov's distribution: exceeded with probability 2 exp(-2 x^2), here 1e-7.
    assert distance.max() * math.sqrt(draws) < 2.9


@each_name
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


@each_name
@pytest.mark.parametrize("samples", [1, 0, -3])
def test_too_few_samples(name, samples):
    with pytest.raises(ValueError, match=rf"at least 2 samples, got samples={samples}"):
        COPULAS[name](samples)
