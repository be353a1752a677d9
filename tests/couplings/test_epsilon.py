"""Mixtures with independent draws."""

from functools import partial

import pytest
import torch
from coupling_kinds import each_probs, ratio_table
from helpers import (
    dirichlet_probs,
)

from carms.copulas import Circular, Dirichlet, Stratified
from carms.couplings import GumbelMax, InverseCDF


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


@each_probs
def test_epsilon_mixes_the_table_with_independence(probs):
    for make in (
        partial(InverseCDF, Circular(4)),
        partial(InverseCDF, Dirichlet(4), "all"),
        partial(GumbelMax, Dirichlet(4)),
    ):
        plain, mixed = make().pmf(probs), make(epsilon=0.3).pmf(probs)
        expected = 0.7 * plain + 0.3 * probs.unsqueeze(-1) * probs
        torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [InverseCDF, GumbelMax])
@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_epsilon_must_be_a_probability(make, epsilon):
    with pytest.raises(ValueError, match=f"epsilon is a probability, got {epsilon}"):
        make(Dirichlet(3), epsilon=epsilon)
