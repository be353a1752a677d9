"""What correlated samples gain over independent ones."""

import pytest
import torch
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


@pytest.mark.parametrize("samples", [2, 4, 8])
@pytest.mark.parametrize("logit", [25.0, -25.0, 35.0, -35.0, 100.0, -100.0])
def test_the_ratio_of_arms_keeps_its_digits(samples, logit):
    bits = torch.distributions.Bernoulli(logits=torch.full((1,), logit, dtype=torch.float64))
    ratio = carms.make("arms", samples=samples).sample(bits).memory.ratio
    # Two samples are hardly ever in the rare category together: its probability is the whole.
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=1e-9, atol=0)
