"""Ratios of drawn pairs."""

import itertools

import pytest
import torch
from coupling_kinds import (
    PROBS,
    each_probs,
    each_reaching,
    is_gumbel,
    off_diagonal,
    peaked,
    ratio_table,
    tensor,
)
from helpers import (
    RandomTable,
    dirichlet_probs,
    exact_lift,
    generator,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Stratified
from carms.copulas.names import COPULAS
from carms.couplings import InverseCDF


@each_probs
@each_reaching
def test_pair_ratio_is_the_ratio_of_chance_to_the_table(reaching, probs):
    coupling = reaching(4)
    ratio = ratio_table(coupling, probs)
    expected = probs.unsqueeze(-1) * probs / coupling.pmf(probs)
    asked = ratio > 0
    assert int(asked.sum()) == int((probs > 0).sum()) * (int((probs > 0).sum()) - 1)
    tolerance = 1e-7 if is_gumbel(coupling) else 1e-8
    torch.testing.assert_close(ratio[asked], expected[asked], rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", list(COPULAS))
@pytest.mark.parametrize("orderings", ["auto", "all"])
def test_pair_ratio_where_few_of_many_categories_are_drawn(name, orderings):
    # Few drawn categories are looked up one by one, a table is made of all of them at once.
    coupling, probs = InverseCDF(COPULAS[name](3), orderings), dirichlet_probs(1.0, 12, floor=0.01)
    expected = probs.unsqueeze(-1) * probs / coupling.pmf(probs)
    ratio = ratio_table(coupling, probs)
    torch.testing.assert_close(off_diagonal(ratio), off_diagonal(expected), rtol=1e-8, atol=0)


def test_pair_ratio_follows_the_order_of_triu_indices():
    coupling, probs = InverseCDF(Circular(3)), tensor([0.2, 0.3, 0.5])
    ratio = coupling.pair_ratio(probs, torch.tensor([2, 0, 1]))
    expected = probs.unsqueeze(-1) * probs / coupling.pmf(probs)
    torch.testing.assert_close(ratio, torch.stack((expected[2, 0], expected[2, 1], expected[0, 1])))


@each_reaching
def test_pair_ratio_of_single_precision_probabilities(reaching):
    coupling = reaching(4)
    probs = tensor(PROBS["ordinary"])
    indices = torch.tensor([0, 1, 2, 3])
    torch.testing.assert_close(
        coupling.pair_ratio(probs.float(), indices).double(),
        coupling.pair_ratio(probs, indices).double(),
        rtol=1e-4,
        atol=0,
    )


@each_probs
@each_reaching
def test_the_table_and_its_ratios_give_the_true_gradient(reaching, probs):
    coupling = reaching(4)
    table, ratio = coupling.pmf(probs), ratio_table(coupling, probs)
    f = RandomTable(1, 4, seed=3)
    gradient = torch.zeros(4, dtype=torch.float64)
    for i, j in itertools.permutations(range(4), 2):
        step = table[i, j] * ratio[i, j] * (f.values[i] - f.values[j]) / 2
        gradient[i] += step
        gradient[j] -= step
    _, truth = f.expectation(probs.unsqueeze(0))
    tolerance = 1e-7 if is_gumbel(coupling) else 1e-10
    torch.testing.assert_close(gradient, truth[0], rtol=0, atol=tolerance)


@pytest.mark.parametrize("orderings", ["auto", "all", "largest-first", 3])
@pytest.mark.parametrize("name", list(COPULAS))
@pytest.mark.parametrize("samples", [2, 3, 8])
def test_peaked_probabilities_in_single_precision_give_the_true_gradient(name, orderings, samples):
    coupling = InverseCDF(COPULAS[name](samples), orderings)
    for categories, top, height in itertools.product((2, 3, 40), (0, 1, -1), (8.0, 13.0, 15.71)):
        try:
            coupling._check_ratios(categories)
        except ValueError:
            continue
        if categories == 40 and coupling.orderings == "all":
            continue
        probs = peaked(categories, top, height)
        p = probs.double() / probs.double().sum()
        first, second = torch.triu_indices(categories, categories, 1)
        indices = torch.stack([first] + [second] * (samples - 1))
        ratio = coupling.pair_ratio(probs.expand(len(first), -1), indices)[0].double()
        values = torch.arange(categories).double().sin() * 3
        step = coupling.pmf(p)[first, second] * ratio * (values[first] - values[second])
        gradient = torch.zeros_like(p).index_add_(0, first, step).index_add_(0, second, -step)
        values = values - values[top]
        truth = p * (values - (p * values).sum())
        torch.testing.assert_close(gradient, truth, rtol=1e-4, atol=0)


def test_the_ratio_of_a_rare_category_and_an_all_but_certain_one():
    coupling = InverseCDF(Dirichlet(2, reflected=True), "largest-first")
    ratio = coupling.pair_ratio(torch.tensor([0, 15.71]).softmax(-1), torch.tensor([0, 1]))
    assert ratio.item() == pytest.approx(1, abs=3e-7)


@pytest.mark.parametrize("orderings", ["largest-first", "given", 3])
@pytest.mark.parametrize("categories", [5, 20, 300])
def test_ratios_do_not_depend_on_the_precision_of_the_probabilities(orderings, categories):
    for copula in (Gaussian(3), Circular(3), Dirichlet(12), Dirichlet(12, reflected=True)):
        if orderings != "largest-first" and copula.hole is not None:
            continue
        coupling = InverseCDF(copula, orderings)
        probs = peaked(categories, categories // 2, 15.0).expand(200, categories)
        indices = torch.randint(categories, (copula.samples, 200), generator=generator())
        indices[0] = categories // 2
        torch.testing.assert_close(
            coupling.pair_ratio(probs, indices).double(),
            coupling.pair_ratio(probs.double(), indices),
            rtol=2e-5,
            atol=0,
        )


@pytest.mark.parametrize("reflected", [False, True])
def test_many_samples_of_many_categories_have_the_right_ratios(reflected):
    samples, categories = 1000, 65_536
    coupling = InverseCDF(Dirichlet(samples, reflected), "largest-first")
    probs = (3 * torch.randn(categories, generator=generator())).softmax(-1)
    indices, ratio = coupling.draw(probs, generator(1))
    assert ratio.isfinite().all()
    start = (probs.argmax().item() + reflected) % categories
    p = probs.double().roll(-start)
    right = p.cumsum(-1) / p.sum()
    left = right - p / p.sum()
    first, second = torch.triu_indices(samples, samples, 1)
    for pair in range(0, len(first), 25_013):
        i, j = ((indices[k[pair]] - start) % categories for k in (first, second))
        if i != j:
            intervals = [(left[k].item(), right[k].item()) for k in (i, j)]
            name = "dirichlet-reflected" if reflected else "dirichlet"
            exact = 1 / exact_lift(name, samples, *intervals)
            assert ratio[pair].item() == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize("copula", [Dirichlet(3), Stratified(3), Gaussian(3)])
def test_ratios_of_pairs_that_rounding_hides_are_finite(copula):
    # All pairs of three categories, of which two are too rare to be told from rounding together.
    coupling, probs = InverseCDF(copula, "all"), tensor([1.0, 1e-9, 1e-11])
    ratio = coupling.pair_ratio(probs, torch.tensor([0, 1, 2]))
    assert ratio.isfinite().all()
    assert (ratio > 0).all()
