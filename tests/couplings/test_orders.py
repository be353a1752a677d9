"""Orders of the categories: which are enough, and means over several."""

import pytest
import torch
from coupling_kinds import off_diagonal, tensor
from helpers import (
    assert_frequencies,
    dirichlet_probs,
    generator,
    pair_frequencies,
)

import carms
from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified
from carms.copulas.names import COPULAS
from carms.couplings import InverseCDF
from carms.couplings.permutations import make_orders


@pytest.mark.parametrize("categories", [8, 40, 300])
@pytest.mark.parametrize("copula", [Circular(4), Gaussian(4)])
def test_few_orders_of_any_number_of_categories(copula, categories):
    probs = dirichlet_probs(0.5, categories, floor=1e-6)
    coupling = InverseCDF(copula, 3)
    table = coupling.pmf(probs)
    tables = torch.zeros_like(table)
    for order in make_orders(categories, 3, probs.device):
        back = order.argsort()
        tables += InverseCDF(copula, "given").pmf(probs[order])[back][:, back] / 3
    torch.testing.assert_close(table, tables, rtol=0, atol=1e-12)
    draws = 50_000
    indices, ratio = coupling.draw(probs.expand(draws, categories), generator(5))
    common = table * draws > 30  # else counts are not nearly normal
    frequency = pair_frequencies(indices, categories)[..., common]
    assert_frequencies(frequency, table[common].expand_as(frequency), draws)
    first, second = indices[torch.triu_indices(4, 4, 1)]
    differ = first != second
    expected = (probs[first] * probs[second] / table[first, second])[differ]
    torch.testing.assert_close(ratio[differ], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("orderings", ["given", 1, 2, 7])
@pytest.mark.parametrize("reflected", [False, True])
def test_pairs_out_of_reach_are_an_error(orderings, reflected):
    coupling = InverseCDF(Dirichlet(3, reflected), orderings)
    probs = torch.full((3,), 1 / 3)
    message = rf"Dirichlet.*orderings={orderings!r} never draws some pairs of 3 categories"
    with pytest.raises(ValueError, match=message):
        coupling.draw(probs)
    with pytest.raises(ValueError, match=message):
        coupling.pair_ratio(probs, torch.tensor([0, 1, 2]))


@pytest.mark.parametrize("copula", [Stratified(4), Gaussian(2)], ids=repr)
@pytest.mark.parametrize("orderings", ["largest-first", "given", 3])
def test_other_copulas_with_holes_are_an_error_too(copula, orderings):
    with pytest.raises(
        ValueError, match=r"never draws some pairs of 3 categories.*orderings='all'"
    ):
        InverseCDF(copula, orderings).draw(torch.full((3,), 1 / 3))


@pytest.mark.parametrize("reflected", [False, True])
@pytest.mark.parametrize("samples", [2, 3, 4])
def test_one_ordering_is_enough_up_to_two_to_the_samples(samples, reflected):
    coupling = InverseCDF(Dirichlet(samples, reflected), "largest-first")
    enough = 2 ** (samples - 1)
    cases = [torch.full((enough,), 1 / enough, dtype=torch.float64)]
    cases += [
        dirichlet_probs(a, enough, seed=s, floor=1e-4) for a in (0.5, 1, 50) for s in range(5)
    ]
    for probs in cases:
        assert off_diagonal(coupling.pmf(probs)).min() > 0
        coupling.draw(probs)
    with pytest.raises(ValueError, match=rf"enough for.* {enough} categories"):
        coupling.draw(torch.full((enough + 1,), 1 / (enough + 1)))


@pytest.mark.parametrize("name", list(COPULAS))
def test_two_categories_are_always_in_reach(name):
    for orderings in ("given", "largest-first", "all", 1, 3):
        coupling = InverseCDF(COPULAS[name](3), orderings)
        assert off_diagonal(coupling.pmf(tensor([0.02, 0.98]))).min() > 0
        coupling.draw(tensor([0.02, 0.98]))


@pytest.mark.parametrize("name", list(COPULAS))
@pytest.mark.parametrize("samples", [2, 3, 4])
def test_auto_orderings_reach_every_pair(name, samples):
    coupling = InverseCDF(COPULAS[name](samples))
    for seed in range(5):
        probs = dirichlet_probs(0.5, 6, seed=seed, floor=1e-3)
        assert off_diagonal(coupling.pmf(probs)).min() > 0


def test_auto_means_all_for_copulas_with_holes_and_given_for_the_others():
    for copula in (Dirichlet(4), Dirichlet(4, True), Stratified(4), Gaussian(2)):
        assert InverseCDF(copula).orderings == "all"
    for copula in (Circular(4), Gaussian(3), Independent(4), Circular(2)):
        assert InverseCDF(copula).orderings == "given"


@pytest.mark.parametrize("orderings", ["some", 0, -2])
def test_unknown_orderings(orderings):
    with pytest.raises(ValueError, match=f"got {orderings!r}"):
        InverseCDF(Circular(3), orderings)


@pytest.mark.parametrize(("copula", "part"), [(Circular(4), "_PAIRS"), (Dirichlet(4), "_CHUNK")])
def test_a_mean_over_orders_may_be_taken_in_parts(copula, part, monkeypatch):
    coupling = InverseCDF(copula, "all")
    probs = dirichlet_probs(1.0, 3, 6, seed=2)
    expected = coupling.pmf(probs)
    monkeypatch.setattr(f"carms.couplings.mean_lift.{part}", 1)
    torch.testing.assert_close(coupling.pmf(probs), expected, rtol=1e-13, atol=1e-15)


def test_a_number_of_orders_is_the_given_one_and_shuffles():
    orders, given = make_orders(40, 5, torch.device("cpu")), torch.arange(40)
    assert torch.equal(orders[0], given)
    assert torch.equal(orders.sort(-1).values, given.expand(5, 40))
    assert len(orders.unique(dim=0)) == 5


def test_one_is_another_word_for_largest_first():
    old, new = (InverseCDF(Dirichlet(4), word) for word in ("one", "largest-first"))
    assert old.orderings == new.orderings == "largest-first"
    made = carms.make("carms-i", samples=4, orderings="one")
    assert made.coupling.orderings == "largest-first"
    assert InverseCDF(Dirichlet(4), 1).orderings == 1  # the given order
