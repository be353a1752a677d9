import itertools
import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import (
    COPULAS,
    RandomTable,
    assert_frequencies,
    dirichlet_cdf,
    dirichlet_probs,
    exact_circular_lift,
    exact_lift,
    gaussian_cdf,
    generator,
    gumbel_table,
    pair_frequencies,
    paper_orders,
    reflected_cdf,
    stratified_table,
    table_in_order,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified
from carms.couplings import BiasedGumbelMax, GumbelMax, InverseCDF
from carms.couplings.permutations import make_orders

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "pmf.json").read_text())
MAKERS = {
    "inverse_cdf_dirichlet": lambda n: InverseCDF(Dirichlet(n), "all"),
    "inverse_cdf_dirichlet_reflected": lambda n: InverseCDF(Dirichlet(n, reflected=True), "all"),
    "inverse_cdf_circular": lambda n: InverseCDF(Circular(n)),
    "gumbel_dirichlet": lambda n: GumbelMax(Dirichlet(n)),
}
# Every kind of coupling whose draws reach every pair of four categories, for four samples or more.
REACHING = {
    **{f"{name}, auto": lambda n, make=make: InverseCDF(make(n)) for name, make in COPULAS.items()},
    **{
        f"{name}, all": lambda n, make=make: InverseCDF(make(n), "all")
        for name, make in COPULAS.items()
    },
    "dirichlet, one": lambda n: InverseCDF(Dirichlet(n), "largest-first"),
    "dirichlet-reflected, one": lambda n: InverseCDF(Dirichlet(n, reflected=True), "largest-first"),
    "circular, one": lambda n: InverseCDF(Circular(n), "largest-first"),
    "gaussian, one": lambda n: InverseCDF(Gaussian(n), "largest-first"),
    "circular, 1": lambda n: InverseCDF(Circular(n), 1),
    "circular, 5": lambda n: InverseCDF(Circular(n), 5),
    "gaussian, 3": lambda n: InverseCDF(Gaussian(n), 3),
    "dirichlet, epsilon": lambda n: InverseCDF(Dirichlet(n), epsilon=0.3),
    "dirichlet, given, epsilon": lambda n: InverseCDF(Dirichlet(n), "given", epsilon=0.3),
    "stratified, one, epsilon": lambda n: InverseCDF(Stratified(n), "largest-first", epsilon=0.3),
    "dirichlet, 3, epsilon": lambda n: InverseCDF(Dirichlet(n), 3, epsilon=0.3),
    "circular, epsilon": lambda n: InverseCDF(Circular(n), epsilon=0.3),
    "gumbel": lambda n: GumbelMax(Dirichlet(n)),
    "gumbel, epsilon": lambda n: GumbelMax(Dirichlet(n), epsilon=0.3),
    "gumbel, independent": lambda n: GumbelMax(Independent(n)),
}
# Some pairs are out of reach for these; tables and samples must agree all the same.
HIDING = {
    "dirichlet, given": lambda n: InverseCDF(Dirichlet(n), "given"),
    "dirichlet-reflected, given": lambda n: InverseCDF(Dirichlet(n, reflected=True), "given"),
    "dirichlet, 2": lambda n: InverseCDF(Dirichlet(n), 2),
    "stratified, given": lambda n: InverseCDF(Stratified(n), "given"),
    "stratified, one": lambda n: InverseCDF(Stratified(n), "largest-first"),
    "stratified, 3": lambda n: InverseCDF(Stratified(n), 3),
}
PROBS = {
    "ordinary": [0.21, 0.34, 0.08, 0.37],
    "uneven": [0.004, 0.9, 0.066, 0.03],
    "with a zero": [0.3, 0.0, 0.5, 0.2],
    "uniform": [0.25] * 4,
}


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def is_gumbel(coupling):
    return isinstance(coupling, GumbelMax)


def off_diagonal(table):
    return table[..., ~torch.eye(table.shape[-1], dtype=torch.bool)]


def ratio_table(coupling, probs):
    """``p_i p_j / P(i, j)`` of every pair ``i != j`` by ``pair_ratio``, 0 elsewhere."""
    categories = len(probs)
    pairs = [pair for pair in itertools.permutations(range(categories), 2) if probs[[*pair]].all()]
    first, second = torch.tensor(pairs).T
    indices = torch.stack([first] + [second] * (coupling.samples - 1))
    ratio = coupling.pair_ratio(probs.expand(len(pairs), categories), indices)
    table = torch.zeros(categories, categories, dtype=torch.float64)
    table[first, second] = ratio[0].double()
    return table


@pytest.fixture(params=list(PROBS))
def probs(request):
    return tensor(PROBS[request.param])


@pytest.fixture(params=list(REACHING))
def reaching(request):
    return REACHING[request.param]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['samples']}-{len(c['probs'])}")
@pytest.mark.parametrize("kind", list(MAKERS))
def test_pmf_matches_golden(case, kind):
    table = MAKERS[kind](case["samples"]).pmf(tensor(case["probs"]))
    tolerance = 1e-7 if kind == "gumbel_dirichlet" else 1e-9
    torch.testing.assert_close(table, tensor(case["pmf"][kind]), rtol=0, atol=tolerance)


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


REFERENCES = {
    "dirichlet": (Dirichlet, lambda n, p, o: table_in_order(partial(dirichlet_cdf, n), p, o)),
    "dirichlet-reflected": (
        partial(Dirichlet, reflected=True),
        lambda n, p, o: table_in_order(partial(reflected_cdf, n), p, o),
    ),
    "gaussian": (Gaussian, lambda n, p, o: table_in_order(partial(gaussian_cdf, n), p, o)),
    "stratified": (Stratified, stratified_table),
}


@pytest.mark.parametrize("samples", [2, 3, 5])
@pytest.mark.parametrize("name", list(REFERENCES))
@pytest.mark.parametrize("orderings", ["given", "all", "largest-first"])
def test_pmf_against_the_definition(name, samples, orderings):
    make, reference = REFERENCES[name]
    for probs in ([0.15, 0.4, 0.45], [0.1, 0.45, 0.05, 0.4]):
        categories = len(probs)
        start = int(np.argmax(probs)) + (name == "dirichlet-reflected")
        orders = {
            "given": [list(range(categories))],
            "all": paper_orders(categories),
            "largest-first": [[(start + k) % categories for k in range(categories)]],
        }[orderings]
        expected = np.mean([reference(samples, probs, order) for order in orders], axis=0)
        table = InverseCDF(make(samples), orderings).pmf(tensor(probs))
        torch.testing.assert_close(table, torch.from_numpy(expected), rtol=0, atol=1e-10)


@pytest.mark.parametrize("samples", [2, 3, 8])
def test_circular_pmf_in_rational_numbers(samples):
    probs = [0.05, 0.3, 0.01, 0.44, 0.2]
    table = InverseCDF(Circular(samples)).pmf(tensor(probs))
    lefts = [sum(map(Fraction, probs[:k]), Fraction(0)) for k in range(5)]
    for i, j in itertools.combinations(range(5), 2):
        lift = exact_circular_lift(samples, (lefts[i], probs[i]), (lefts[j], probs[j]))
        expected = float(lift * Fraction(probs[i]) * Fraction(probs[j]))
        assert table[i, j].item() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("kind", [*REACHING, *HIDING])
def test_pmf_is_a_symmetric_table_with_the_right_margins(kind, probs):
    coupling = {**REACHING, **HIDING}[kind](4)
    table = coupling.pmf(probs)
    torch.testing.assert_close(table.sum(-1), probs, rtol=0, atol=1e-12)
    torch.testing.assert_close(table, table.mT, rtol=0, atol=1e-14)
    assert table.min() > -1e-8 if is_gumbel(coupling) else table.min() > -1e-13


def test_pmf_is_computed_row_by_row(reaching):
    coupling = reaching(4)
    batch = dirichlet_probs(1.0, 2, 3, 4)
    tables = coupling.pmf(batch)
    assert tables.shape == (2, 3, 4, 4)
    for i, j in itertools.product(range(2), range(3)):
        torch.testing.assert_close(tables[i, j], coupling.pmf(batch[i, j]), rtol=1e-12, atol=1e-15)


def test_pmf_normalises():
    coupling = InverseCDF(Circular(4))
    torch.testing.assert_close(
        coupling.pmf(tensor([2, 1, 1])), coupling.pmf(tensor([0.5, 0.25, 0.25]))
    )


@pytest.mark.parametrize("kind", [*REACHING, *HIDING])
@pytest.mark.parametrize("samples", [4, 5])
def test_pmf_matches_frequencies(kind, samples):
    coupling = {**REACHING, **HIDING}[kind](samples)
    probs = tensor(PROBS["with a zero" if samples == 5 else "ordinary"])
    draws = 100_000
    indices = coupling.sample(probs.expand(draws, 4), generator(5))
    expected = coupling.pmf(probs)
    frequency = pair_frequencies(indices, 4)
    assert_frequencies(frequency, expected.expand_as(frequency), draws)


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


@pytest.mark.parametrize("kind", ["inverse", "all", "gumbel"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_pmf_of_two_samples_matches_frequencies(kind, epsilon):
    copula = Dirichlet(2)
    coupling = {
        "inverse": InverseCDF(Circular(2), epsilon=epsilon),
        "all": InverseCDF(copula, "all", epsilon),
        "gumbel": GumbelMax(copula, epsilon),
    }[kind]
    probs, draws = tensor([0.5, 0.3, 0.2]), 300_000
    indices = coupling.sample(probs.expand(draws, 3), generator(6))
    frequency = pair_frequencies(indices, 3)
    assert_frequencies(frequency, coupling.pmf(probs).expand_as(frequency), draws)


def test_sample_shapes(reaching):
    coupling = reaching(4)
    for shape in ((), (3,), (2, 0), (2, 3)):
        indices = coupling.sample(torch.full((*shape, 3), 1 / 3), generator())
        assert indices.shape == (4, *shape)
        assert indices.dtype == torch.int64


@pytest.mark.parametrize("categories", [3, 9])
@pytest.mark.parametrize("orderings", ["all", 2, "auto"])
@pytest.mark.parametrize("copula", [Dirichlet(4), Circular(4), Stratified(4)])
def test_an_empty_batch_has_empty_ratios(copula, orderings, categories):
    coupling = InverseCDF(copula, orderings, epsilon=0.1)
    for dtype in (torch.float32, torch.float64):
        indices, ratio = coupling.draw(torch.rand(2, 0, categories, dtype=dtype))
        assert indices.shape == (4, 2, 0)
        assert ratio.shape == (6, 2, 0)
        assert ratio.dtype == dtype


@pytest.mark.parametrize("copula", [Gaussian(4), Stratified(4), Circular(4), Dirichlet(4, True)])
def test_gumbel_max_samples_any_copula_with_the_right_marginals(copula):
    probs, draws = tensor([0.5, 0.3, 0.15, 0.05]), 100_000
    indices = GumbelMax(copula).sample(probs.expand(draws, 4), generator())
    frequency = torch.nn.functional.one_hot(indices, 4).double().mean(1)
    assert_frequencies(frequency, probs.expand(4, 4), draws)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draw_is_a_sample_with_its_pair_ratio(reaching, dtype):
    coupling = reaching(4)
    probs = dirichlet_probs(1.0, 50, 3, 4, seed=1, floor=1e-3).to(dtype)
    indices, ratio = coupling.draw(probs, generator(2))
    assert torch.equal(indices, coupling.sample(probs, generator(2)))
    assert ratio.shape == (6, 50, 3)
    assert ratio.isfinite().all()
    assert (ratio > 0).all()
    first, second = torch.triu_indices(4, 4, 1)
    differ = indices[first] != indices[second]
    assert differ.any()
    expected = coupling.pair_ratio(probs, indices)
    torch.testing.assert_close(
        ratio[differ], expected[differ], rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=0
    )


def test_pair_ratio_follows_the_order_of_triu_indices():
    coupling, probs = InverseCDF(Circular(3)), tensor([0.2, 0.3, 0.5])
    ratio = coupling.pair_ratio(probs, torch.tensor([2, 0, 1]))
    expected = probs.unsqueeze(-1) * probs / coupling.pmf(probs)
    torch.testing.assert_close(ratio, torch.stack((expected[2, 0], expected[2, 1], expected[0, 1])))


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


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(
    "kind", ["given", "largest-first", "all", "circular", "stratified", "gumbel"]
)
def test_epsilon_bounds_every_ratio(kind, epsilon):
    coupling = {
        "given": InverseCDF(Dirichlet(3), "given", epsilon),
        "largest-first": InverseCDF(Dirichlet(3), "largest-first", epsilon),
        "all": InverseCDF(Dirichlet(3), "all", epsilon),
        "circular": InverseCDF(Circular(3), epsilon=epsilon),
        "stratified": InverseCDF(Stratified(3), "largest-first", epsilon),
        "gumbel": GumbelMax(Dirichlet(3), epsilon),
    }[kind]
    largest = 0.0
    for seed in range(5):
        probs = dirichlet_probs(0.3, 6, seed=seed, floor=1e-6)
        largest = max(largest, ratio_table(coupling, probs).max().item())
    assert largest <= 1 / epsilon * (1 + 1e-6)
    if kind == "given" and epsilon < 1:
        # A pair that the copula never draws attains the bound.
        assert largest == pytest.approx(1 / epsilon, rel=1e-6)


def test_epsilon_mixes_the_table_with_independence(probs):
    for make in (
        partial(InverseCDF, Circular(4)),
        partial(InverseCDF, Dirichlet(4), "all"),
        partial(GumbelMax, Dirichlet(4)),
    ):
        plain, mixed = make().pmf(probs), make(epsilon=0.3).pmf(probs)
        expected = 0.7 * plain + 0.3 * probs.unsqueeze(-1) * probs
        torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-12)


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


def peaked(categories, top, height):
    """Single-precision probabilities of which one is all but certain."""
    logits = torch.linspace(0, 1, categories)
    logits[top] = height
    return logits.softmax(-1)


@pytest.mark.parametrize("orderings", ["auto", "all", "largest-first", 3])
@pytest.mark.parametrize("name", list(COPULAS))
@pytest.mark.parametrize("samples", [2, 3, 8])
def test_peaked_probabilities_in_single_precision_give_the_true_gradient(name, orderings, samples):
    coupling = InverseCDF(COPULAS[name](samples), orderings)
    for categories, top, height in itertools.product((2, 3, 40), (0, 1, -1), (8.0, 13.0, 15.71)):
        try:
            coupling._check_reachable(categories)
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


@pytest.mark.parametrize("kind", [*REACHING, *HIDING])
def test_no_entry_of_a_table_is_negative(kind):
    coupling = {**REACHING, **HIDING}[kind](4)
    # That of a category with itself is what the quadrature leaves of a margin.
    least = -1e-7 if is_gumbel(coupling) else 0
    for top, height in itertools.product(range(4), (0.0, 8.0, 15.0, 40.0)):
        probs = peaked(4, top, height).double()
        table = coupling.pmf(probs)
        assert (table >= least).all()
        assert table.sum().item() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("copula", [Dirichlet(3), Stratified(3), Gaussian(3)])
def test_ratios_of_pairs_that_rounding_hides_are_finite(copula):
    # All pairs of three categories, of which two are too rare to be told from rounding together.
    coupling, probs = InverseCDF(copula, "all"), tensor([1.0, 1e-9, 1e-11])
    ratio = coupling.pair_ratio(probs, torch.tensor([0, 1, 2]))
    assert ratio.isfinite().all()
    assert (ratio > 0).all()


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


@pytest.mark.parametrize("copula", [Gaussian(3), Circular(3), Stratified(3), Dirichlet(3, True)])
def test_gumbel_max_has_no_table_for_other_copulas(copula):
    with pytest.raises(
        ValueError, match=r"joint table of GumbelMax is known for .*Dirichlet.*, not for"
    ):
        GumbelMax(copula).pmf(torch.full((3,), 1 / 3))


@pytest.mark.parametrize("copula", [Gaussian(2), Dirichlet(2, reflected=True)], ids=repr)
def test_gumbel_max_of_antithetic_pairs_has_one_table(copula, probs):
    plain, draws = GumbelMax(Dirichlet(2)).pmf(probs), 200_000
    torch.testing.assert_close(GumbelMax(copula).pmf(probs), plain)
    indices = GumbelMax(copula).sample(probs.expand(draws, 4), generator(7))
    frequency = pair_frequencies(indices, 4)
    # The diagonal is what quadrature leaves: where nothing is, its rounding error remains.
    assert_frequencies(frequency, plain.where(plain > 1e-8, 0).expand_as(frequency), draws)


@pytest.mark.parametrize("make", [InverseCDF, GumbelMax])
@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_epsilon_must_be_a_probability(make, epsilon):
    with pytest.raises(ValueError, match=f"epsilon is a probability, got {epsilon}"):
        make(Dirichlet(3), epsilon=epsilon)


@pytest.mark.parametrize("orderings", ["some", 0, -2])
def test_unknown_orderings(orderings):
    with pytest.raises(ValueError, match=f"got {orderings!r}"):
        InverseCDF(Circular(3), orderings)


@pytest.mark.parametrize(
    ("kind", "probs", "message"),
    [
        (TypeError, torch.ones(3, dtype=torch.int64), r"floating point, got torch\.int64"),
        (ValueError, torch.ones(2, 1), r"2 categories, got .*\[2, 1\]"),
        (ValueError, torch.tensor(1.0), r"2 categories, got .*\[\]"),
        (ValueError, torch.tensor([0.5, -0.1, 0.6]), "non-negative and finite, got negative"),
        (ValueError, torch.tensor([0.5, torch.nan, 0.5]), "non-negative and finite.* NaN"),
        (ValueError, torch.tensor([0.5, torch.inf, 0.5]), "non-negative and finite.* infinite"),
        (ValueError, torch.zeros(2, 3), "positive sum over the categories, got all zeros"),
    ],
    ids=["integer", "one category", "scalar", "negative", "nan", "inf", "zero"],
)
def test_bad_probabilities(kind, probs, message):
    coupling = InverseCDF(Circular(3))
    with pytest.raises(kind, match=message):
        coupling.pmf(probs)
    with pytest.raises(kind, match=message):
        coupling.sample(probs)
    with pytest.raises(kind, match=message):
        coupling.draw(probs)
    if probs.ndim:
        with pytest.raises(kind, match=message):
            coupling.pair_ratio(probs, torch.zeros(3, *probs.shape[:-1], dtype=torch.int64))


def test_a_coupling_needs_a_copula():
    for make in (InverseCDF, GumbelMax):
        with pytest.raises(TypeError, match=r"must be a Copula .*got 'circular'"):
            make("circular")


def test_reproducible_without_touching_the_global_stream(reaching):
    coupling, probs = reaching(4), dirichlet_probs(1.0, 20, 4)
    before = torch.get_rng_state()
    first, again = coupling.sample(probs, generator(1)), coupling.sample(probs, generator(1))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_probabilities(reaching):
    coupling = reaching(4)
    probs = torch.tensor([0.25, 0.5, 0.25], dtype=torch.bfloat16).expand(10, 3)
    indices = coupling.sample(probs, generator())
    assert torch.equal(indices, coupling.sample(probs.float(), generator()))
    ratio = coupling.pair_ratio(probs, indices)
    torch.testing.assert_close(ratio, coupling.pair_ratio(probs.float(), indices))


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
