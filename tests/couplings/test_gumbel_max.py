"""Gumbel-max sampling: its table by quadrature and by frequencies."""

import itertools

import pytest
import torch
from coupling_kinds import (
    each_probs,
    off_diagonal,
    ratio_table,
    tensor,
)
from helpers import (
    assert_frequencies,
    dirichlet_probs,
    generator,
    gumbel_table,
    pair_frequencies,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Stratified
from carms.couplings import BiasedGumbelMax, GumbelMax, InverseCDF


@pytest.mark.parametrize("samples", [2, 3, 4, 7])
@pytest.mark.parametrize(
    "probs",
    [
        [0.9989, 0.0008, 0.0003],
        [1e-6, 0.4, 0.599999],
        [0.25] * 4,
        [0.5, 0.3, 0.1, 0.06, 0.04],
        [0.9989, 0.0011],
    ],
    ids=str,
)
def test_gumbel_pmf_against_quadrature(samples, probs):
    expected = torch.from_numpy(gumbel_table(samples, probs))
    table = GumbelMax(Dirichlet(samples)).pmf(tensor(probs))
    torch.testing.assert_close(off_diagonal(table), off_diagonal(expected), rtol=1e-7, atol=0)


@pytest.mark.parametrize("copula", [Gaussian(4), Stratified(4), Circular(4), Dirichlet(4, True)])
def test_gumbel_max_samples_any_copula_with_the_right_marginals(copula):
    probs, draws = tensor([0.5, 0.3, 0.15, 0.05]), 100_000
    indices = GumbelMax(copula).sample(probs.expand(draws, 4), generator())
    frequency = torch.nn.functional.one_hot(indices, 4).double().mean(1)
    assert_frequencies(frequency, probs.expand(4, 4), draws)


@pytest.mark.parametrize("samples", [2, 3, 5, 8])
def test_gumbel_pair_ratio_against_quadrature(samples):
    for probs in ([0.9989, 0.0008, 0.0003], [1 / 3] * 3, [0.6, 0.3, 0.08, 0.015, 0.005]):
        p = tensor(probs)
        expected = p.unsqueeze(-1) * p / torch.from_numpy(gumbel_table(samples, probs))
        ratio = ratio_table(GumbelMax(Dirichlet(samples)), p)
        torch.testing.assert_close(off_diagonal(ratio), off_diagonal(expected), rtol=1e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("samples", "categories"), [(4, 10), (10, 10), (20, 15), (64, 5), (2, 15)])
def test_gumbel_pair_ratio_of_many_samples_and_categories(samples, categories, dtype):
    # Rounded to the precision of the test first, so that both see the same probabilities.
    p = dirichlet_probs(1.0, categories, seed=1, floor=1e-3).to(dtype).double()
    expected = p.unsqueeze(-1) * p / torch.from_numpy(gumbel_table(samples, p.tolist()))
    ratio = ratio_table(GumbelMax(Dirichlet(samples)), p.to(dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-7
    torch.testing.assert_close(off_diagonal(ratio), off_diagonal(expected), rtol=tolerance, atol=0)


def test_biased_gumbel_max_says_so_and_its_ratio_comes_from_the_drawn_samples():
    assert BiasedGumbelMax(Dirichlet(3)).exact is False
    assert GumbelMax(Dirichlet(3)).exact is True
    assert InverseCDF(Dirichlet(3)).exact is True
    probs = dirichlet_probs(1.0, 40, 3)
    indices, ratio = BiasedGumbelMax(Dirichlet(3)).draw(probs, generator())
    assert torch.equal(indices, GumbelMax(Dirichlet(3)).sample(probs, generator()))
    p = probs.unsqueeze(0).expand(3, -1, -1).gather(-1, indices.unsqueeze(-1)).squeeze(-1)
    counts = (indices.unsqueeze(0) == indices.unsqueeze(1)).sum(1)
    for row, (n, m) in enumerate(itertools.combinations(range(3), 2)):
        differ = indices[n] != indices[m]
        # Ordered pairs of samples that are these two categories, among all six.
        frequency = counts[n] * counts[m] / 6
        expected = p[n] * p[m] / frequency
        torch.testing.assert_close(ratio[row][differ], expected[differ])


def test_more_extra_draws_bring_the_biased_ratio_closer_to_the_true_one():
    probs = tensor([0.5, 0.3, 0.2]).expand(1000, 3)
    true = GumbelMax(Dirichlet(3))
    errors = []
    for extra in (0, 10, 300):
        indices, ratio = BiasedGumbelMax(Dirichlet(3), extra=extra).draw(probs, generator())
        first, second = torch.triu_indices(3, 3, 1)
        differ = indices[first] != indices[second]
        wrong = ratio / true.pair_ratio(probs, indices) - 1
        errors.append(wrong[differ].abs().mean().item())
    assert errors[0] > 1.5 * errors[1] > 3 * errors[2]


def test_what_has_no_table_is_refused_before_anything_is_drawn():
    source = generator()
    before = source.get_state()
    with pytest.raises(ValueError, match="joint table of GumbelMax is known for"):
        GumbelMax(Gaussian(3)).draw(torch.full((2, 3), 1 / 3), source)
    assert torch.equal(source.get_state(), before)


@pytest.mark.parametrize("copula", [Gaussian(3), Circular(3), Stratified(3), Dirichlet(3, True)])
def test_gumbel_max_has_no_table_for_other_copulas(copula):
    with pytest.raises(
        ValueError, match=r"joint table of GumbelMax is known for .*Dirichlet.*, not for"
    ):
        GumbelMax(copula).pmf(torch.full((3,), 1 / 3))


@each_probs
@pytest.mark.parametrize("copula", [Gaussian(2), Dirichlet(2, reflected=True)], ids=repr)
def test_gumbel_max_of_antithetic_pairs_has_one_table(copula, probs):
    plain, draws = GumbelMax(Dirichlet(2)).pmf(probs), 200_000
    torch.testing.assert_close(GumbelMax(copula).pmf(probs), plain)
    indices = GumbelMax(copula).sample(probs.expand(draws, 4), generator(7))
    frequency = pair_frequencies(indices, 4)
    # The diagonal is what quadrature leaves: where nothing is, its rounding error remains.
    assert_frequencies(frequency, plain.where(plain > 1e-8, 0).expand_as(frequency), draws)
