"""Losses that are sums: no estimator is biased by the terms."""

import pytest
import torch
from helpers import (
    Moments,
    configurations,
    dirichlet_probs,
    generator,
    logits_of,
    replicate,
)
from helpers.terms import MASKS, TAKES, Terms, categories_for

import carms
from carms.copulas.names import COPULAS


def assert_unbiased(estimator, mask, concentration, replicates=200_000, categories=3):
    f = Terms(MASKS[mask], categories, seed=11)
    probs = dirichlet_probs(concentration, 3, categories, seed=7, floor=0.01)
    value, gradient = f.total.expectation(probs)
    values, gradients = replicate(
        estimator, lambda z, _: f(z), probs.log(), replicates, terms=MASKS[mask]
    )
    assert gradients.variance.max() > 0
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("copula", COPULAS)
def test_unbiased_under_every_copula_and_ordering(copula):
    # The strata are too regular for one ordering: any epsilon lets every pair be drawn.
    epsilon = 0.2 if copula == "stratified" else 0.0
    one = carms.make(
        "carms-i", samples=4, copula=copula, orderings="largest-first", epsilon=epsilon
    )
    # The CDF of the Gaussian is an integral.
    assert_unbiased(one, "reward-to-go", 0.1, 50_000 if copula == "gaussian" else 200_000)
    every = carms.make("carms-i", samples=4, copula=copula, orderings="all")
    assert_unbiased(every, "separable", 1.0)


@pytest.mark.parametrize(
    "options",
    [{}, {"orderings": 3}, {"epsilon": 0.2}],
    ids=["given order", "3 orderings", "epsilon"],
)
def test_unbiased_on_the_ring(options):
    assert_unbiased(carms.make("carms-s", samples=4, **options), "factors", 0.1)


@pytest.mark.parametrize(
    "name", [n for n in TAKES if carms.make(n, samples=4).unbiased and n != "exact"]
)
def test_unbiased(name):
    replicates = {"carms-g": 200_000, "unord": 20_000}.get(name, 50_000)
    estimator = carms.make(name, samples=4)
    assert_unbiased(estimator, "factors", 1.0, replicates, categories_for(name))


def test_constant_baseline_is_unbiased():
    assert_unbiased(carms.make("reinforce", samples=4, baseline=0.7), "factors", 0.1, 50_000)


@pytest.mark.parametrize("name", ["loorf", "carms-s", "reinforce", "arsm", "local-expectation"])
def test_other_tensors_get_their_gradient_and_so_do_logits_inside_f(name):
    """Each term has weights of its own and subtracts the log probability of its variable."""
    probs = dirichlet_probs(1.0, 3, 3, seed=7, floor=0.05)
    weight = logits_of(3, 3, seed=1)

    def terms(z, logits, weight):
        return (z * weight).sum(-1).exp() - (z * logits.log_softmax(-1)).sum(-1)

    leaf, points = probs.log().requires_grad_(), configurations(3, 3)
    chance = (leaf.softmax(-1) * points).sum(-1).prod(-1)
    truth = (chance * terms(points, leaf, weight).sum(-1)).sum()
    expected = torch.autograd.grad(truth, (leaf, weight))

    logits = probs.log().expand(50_000, 3, 3).clone().requires_grad_()
    weights = weight.detach().expand(50_000, 3, 3).clone().requires_grad_()
    value = carms.make(name, samples=4).expectation(
        lambda z: terms(z, logits, weights), logits, generator(4), terms=torch.eye(3)
    )
    for found, true in zip(
        torch.autograd.grad(value.sum(), (logits, weights)), expected, strict=True
    ):
        moments = Moments()
        moments.add(found)
        assert moments.agrees_with(true)
    moments = Moments()
    moments.add(value.detach())
    assert moments.agrees_with(truth.detach())
