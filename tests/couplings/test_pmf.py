"""Joint tables of two samples."""

import itertools
import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from coupling_kinds import (
    HIDING,
    PROBS,
    REACHING,
    each_probs,
    each_reaching,
    is_gumbel,
    peaked,
    tensor,
)
from helpers import (
    assert_frequencies,
    dirichlet_cdf,
    dirichlet_probs,
    exact_circular_lift,
    gaussian_cdf,
    generator,
    pair_frequencies,
    paper_orders,
    reflected_cdf,
    stratified_table,
    table_in_order,
)

from carms.copulas import Circular, Dirichlet, Gaussian, Stratified
from carms.couplings import GumbelMax, InverseCDF

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "pmf.json").read_text())


MAKERS = {
    "inverse_cdf_dirichlet": lambda n: InverseCDF(Dirichlet(n), "all"),
    "inverse_cdf_dirichlet_reflected": lambda n: InverseCDF(Dirichlet(n, reflected=True), "all"),
    "inverse_cdf_circular": lambda n: InverseCDF(Circular(n)),
    "gumbel_dirichlet": lambda n: GumbelMax(Dirichlet(n)),
}


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['samples']}-{len(c['probs'])}")
@pytest.mark.parametrize("kind", list(MAKERS))
def test_pmf_matches_golden(case, kind):
    table = MAKERS[kind](case["samples"]).pmf(tensor(case["probs"]))
    tolerance = 1e-7 if kind == "gumbel_dirichlet" else 1e-9
    torch.testing.assert_close(table, tensor(case["pmf"][kind]), rtol=0, atol=tolerance)


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


@each_probs
@pytest.mark.parametrize("kind", [*REACHING, *HIDING])
def test_pmf_is_a_symmetric_table_with_the_right_margins(kind, probs):
    coupling = {**REACHING, **HIDING}[kind](4)
    table = coupling.pmf(probs)
    torch.testing.assert_close(table.sum(-1), probs, rtol=0, atol=1e-12)
    torch.testing.assert_close(table, table.mT, rtol=0, atol=1e-14)
    assert table.min() > -1e-8 if is_gumbel(coupling) else table.min() > -1e-13


@each_reaching
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


@pytest.mark.parametrize("kind", [*REACHING, *HIDING])
def test_no_entry_of_a_table_is_negative(kind):
    coupling = {**REACHING, **HIDING}[kind](4)
    for top, height in itertools.product(range(4), (0.0, 8.0, 15.0, 40.0)):
        probs = peaked(4, top, height).double()
        table = coupling.pmf(probs)
        assert (table >= 0).all()
        # Where quadrature leaves less than nothing of a margin, that becomes 0.
        tolerance = 1e-7 if is_gumbel(coupling) else 1e-14
        assert table.sum().item() == pytest.approx(1, abs=tolerance)
