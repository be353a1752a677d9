"""What correlated samples gain over independent ones."""

import pytest
from helpers import RandomTable, dirichlet_probs, replicate

import carms


def variance(name, samples, probs, f, replicates):
    """Of the gradient, summed over the logits."""
    estimator = carms.make(name, samples=samples)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), replicates)
    return gradients.variance.sum().item()


def test_circular_strata_more_than_halve_the_variance():
    ratios = []
    for seed in range(10):
        problem = dirichlet_probs(1.0, 1, 10, seed=seed), RandomTable(1, 10, seed=seed), 10_000
        ratios.append(variance("carms-s", 10, *problem) / variance("loorf", 10, *problem))
    assert sum(ratios) / len(ratios) < 0.5


@pytest.mark.parametrize(
    ("name", "limit"), [("carms-i", 0.95), ("carms-g", 0.95), ("carms-s", 0.5)]
)
def test_negative_dependence_lowers_the_variance(name, limit):
    problem = dirichlet_probs(1000.0, 1, 5), RandomTable(1, 5), 50_000
    assert variance(name, 5, *problem) < limit * variance("loorf", 5, *problem)
