"""Calls of an estimator that return its gradient, or the exact mean of its gradients."""

import itertools
import math

import torch

import carms
from helpers.problems import generator


def expectation(f, logits, name, samples=4, generator=None, **options):
    """``carms.expectation``, also of an estimator that has to be trained first, untrained."""
    if not carms.estimators.find(name).stateful:
        return carms.expectation(f, logits, name, samples, generator, **options)
    call = {key: options.pop(key) for key in ("one_hot", "terms") if key in options}
    made = carms.make(name, samples=samples, **options).eval()
    return made.expectation(f, logits, generator, **call)


def gradient_of(estimator, f, logits, seed=1):
    value = estimator.expectation(f, logits, generator(seed))
    return torch.autograd.grad(value.sum(), logits)[0]


def assert_two_steps_are_one(name, one, two):
    """Check that a gradient is the same, in every digit, after one step and after two.

    The slopes of carms-t come multiplied by weights in one step, and are divided by them again.
    """
    if name == "carms-t":
        torch.testing.assert_close(one, two)
    else:
        assert torch.equal(one, two)


def results(name, f, logits, samples=4, seed=1, **options):
    """Value and gradient of one call by name."""
    value = expectation(f, logits, name, samples, generator(seed), **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


def expected_gradient(estimator, f, probs):
    """``E g`` exactly, for estimators whose gradient depends on the hard sample alone."""
    variables, categories = probs.shape
    logits = probs.log().expand(20_000, variables, categories).clone().requires_grad_()
    draw = estimator.sample(logits, generator())
    value = estimator.surrogate(draw, f(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    total, weight = torch.zeros_like(probs), 0.0
    for point in itertools.product(range(categories), repeat=variables):
        (rows,) = torch.where((draw.indices[0] == torch.tensor(point)).all(-1))
        chance = math.prod(probs[d, c].item() for d, c in enumerate(point))
        total += chance * gradient[rows[0]]
        weight += chance
        assert torch.equal(gradient[rows[0]], gradient[rows[-1]])
    assert math.isclose(weight, 1)
    return total
