"""The CDF of two samples."""

import math

import pytest
import torch
from copula_kinds import each_copula
from helpers import (
    assert_frequencies,
    dirichlet_cdf,
    gaussian_cdf,
    generator,
    reflected_cdf,
)

from carms.copulas import Dirichlet, Gaussian

GRID = torch.tensor([0.03, 0.1, 0.25, 0.5, 0.7, 0.9, 0.98], dtype=torch.float64)


def grid_pairs():
    with_ends = torch.cat((torch.zeros(1), GRID, torch.ones(1))).double()
    return torch.meshgrid(with_ends, with_ends, indexing="ij")


@each_copula
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


@each_copula
def test_cdf_has_uniform_margins_and_is_symmetric(copula):
    a, b = grid_pairs()
    cdf = copula.cdf(a, b)
    torch.testing.assert_close(cdf[:, -1], a[:, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(cdf[-1], b[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(cdf[:, 0], torch.zeros_like(cdf[:, 0]), rtol=0, atol=1e-15)
    torch.testing.assert_close(cdf[0], torch.zeros_like(cdf[0]), rtol=0, atol=1e-15)
    torch.testing.assert_close(cdf, cdf.T, rtol=0, atol=1e-14)


@each_copula
def test_cdf_gives_no_rectangle_negative_mass(copula):
    ticks = torch.linspace(0, 1, 41, dtype=torch.float64)
    mass = copula.cdf(ticks.unsqueeze(-1), ticks.unsqueeze(0)).diff(dim=0).diff(dim=1)
    assert mass.min() > -1e-13
    torch.testing.assert_close(mass.sum(), torch.ones_like(mass.sum()), rtol=0, atol=1e-12)


@each_copula
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


@each_copula
def test_a_copula_without_a_hole_gives_mass_to_every_rectangle(copula):
    # Holes can be as small as the corners; rectangles off the diagonal, where no mass need be.
    ends = torch.tensor([0, 5e-4, 1e-3], dtype=torch.float64)
    middle = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    ticks = torch.cat((ends, middle, 1 - ends.flip(0)))
    mass = copula.cdf(ticks.unsqueeze(-1), ticks.unsqueeze(0)).diff(dim=0).diff(dim=1)
    off = ~torch.eye(len(mass), dtype=torch.bool)
    assert (copula.hole is None) == bool((mass[off] > 1e-15).all())


@each_copula
def test_cdf_beyond_the_unit_interval_and_in_half_precision(copula):
    a = torch.tensor([-0.1, 0.0, 0.25, 1.0, 1.2], dtype=torch.float16)
    b = torch.tensor(0.5, dtype=torch.float16)
    found = copula.cdf(a, b)
    assert found.dtype == torch.float16
    expected = copula.cdf(a.double().clamp(0, 1), b.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-6)


@each_copula
def test_cdf_in_single_precision_has_its_digits(copula):
    a = torch.tensor([1e-3, 1e-2, 0.3])
    precise = copula.cdf(a.double(), a.double())
    torch.testing.assert_close(copula.cdf(a, a).double(), precise, rtol=1e-6, atol=1e-16)


@each_copula
def test_cdf_of_numbers(copula):
    a = torch.tensor(0.3, dtype=torch.float64)
    assert copula.cdf(0.3, 0.4) == copula.cdf(a, torch.tensor(0.4, dtype=torch.float64))
    assert copula.cdf(0.5, 0.0) >= 0
    assert copula.cdf(torch.tensor([0.3]), 1).item() == pytest.approx(0.3)
