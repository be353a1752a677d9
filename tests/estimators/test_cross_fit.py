"""Scales that are fitted on other examples, or on past calls."""

import warnings

import pytest
import torch
from carms_t_cases import fitted, network, quadratic, true_gradient
from helpers import (
    Moments,
    dirichlet_probs,
    generator,
    logits_of,
)

import carms


def test_a_scale_does_not_depend_on_its_own_example():
    rows = torch.randn(3, 6, 2, 3, generator=generator(0), dtype=torch.float64)
    before = fitted(*rows)
    rows[:, 2] *= -3
    after = fitted(*rows)
    torch.testing.assert_close(before[2], after[2])
    moved = (before - after).abs().amax(-1) > 1e-3
    assert moved.tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize("size", [1e-9, 1e9, 1e30])
def test_nor_on_its_size(size):
    rows = torch.randn(3, 6, 2, 3, generator=generator(0), dtype=torch.float64)
    before = fitted(*rows)
    rows[:, 2] *= size
    torch.testing.assert_close(fitted(*rows)[2], before[2])


def test_one_undecided_example_among_confident_ones():
    for seed in range(50):
        logits = torch.zeros(64, 3, 4)
        logits[1:, :, 0] = 22
        logits.requires_grad_()
        value = carms.expectation(
            lambda z: (z * torch.arange(4)).sum((-2, -1)).sin(),
            logits,
            "carms-t",
            2,
            generator(seed),
        )
        value.sum().backward()
        assert logits.grad.abs().max() < 10


def test_a_rare_draw_among_decided_examples_spoils_no_other():
    logits = torch.zeros(16, 3, 3)
    logits[1:, :, 0] = 10
    logits = logits.expand(300, 16, 3, 3).clone().requires_grad_()
    for row in logits:  # one call for each, since examples learn from their batch
        value = carms.expectation(
            lambda z: (z * torch.arange(9).view(3, 3)).sum((-2, -1)).sin(), row, "ridge", 6
        )
        value.sum().backward()
    assert logits.grad[:, 0].abs().max() < 10


def test_scales_are_least_squares():
    # Of many examples, so that the pulls hardly matter.
    source = generator(0)
    terms = torch.randn(2, 20_000, 2, 3, generator=source, dtype=torch.float64)
    noise = torch.randn(20_000, 2, 3, generator=source, dtype=torch.float64)
    base = noise - 0.3 * terms[0] - 1.7 * terms[1]
    scales = fitted(base, *terms)
    right = torch.tensor([0.3, 1.7], dtype=torch.float64).expand_as(scales)
    torch.testing.assert_close(scales, right, atol=0.02, rtol=0)
    one = fitted(noise - 0.4 * terms[0], terms[0])
    torch.testing.assert_close(one, torch.full_like(one, 0.4), atol=0.02, rtol=0)


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
def test_nobody_else_means_ones(batch):
    rows = torch.randn(3, *batch, 2, 3, generator=generator(0), dtype=torch.float64)
    assert torch.equal(fitted(*rows), torch.ones(*batch, 2, dtype=torch.float64))


def variance(estimator, f, logits, replicates):
    rows = []
    for _ in range(replicates):
        leaf = logits.clone().requires_grad_()
        rows.append(torch.autograd.grad(estimator.expectation(f, leaf).sum(), leaf)[0])
    return torch.stack(rows).var(0).sum().item()


def test_past_calls_fit_the_scales_where_there_is_no_batch():
    torch.manual_seed(0)
    logits, f = logits_of(3, 4).detach(), network(3, 4, 20.0)
    learning = carms.make("carms-t", samples=10)
    fresh = carms.make("carms-t", samples=10).eval()
    variance(fresh, f, logits, 100)
    assert not any(value.any() for value in fresh.state_dict().values())
    variance(learning, f, logits, 100)
    assert all(value.any() for value in learning.state_dict().values())
    # Slopes of a staircase mislead; only who has a past can know.
    assert variance(learning, f, logits, 400) < 0.5 * variance(fresh, f, logits, 400)
    again = carms.make("carms-t", samples=10)
    again.load_state_dict(learning.state_dict())
    leaf = logits.clone().requires_grad_()
    values = [one.expectation(f, leaf, generator(3)) for one in (learning, again)]
    assert torch.equal(*(torch.autograd.grad(value, leaf)[0] for value in values))


def test_a_batch_needs_no_past():
    estimator = carms.make("carms-t", samples=6)
    logits = logits_of(2, 2, 3)
    for _ in range(30):
        torch.autograd.grad(estimator.expectation(quadratic, logits).sum(), logits)
    assert not any(value.any() for value in estimator.state_dict().values())


def test_unbiased_with_a_past():
    torch.manual_seed(1)
    probs, f = dirichlet_probs(1.0, 1, 3, seed=7, floor=0.05), network(1, 3, 3.0)
    estimator, found = carms.make("carms-t", samples=3), []
    for _ in range(3000):
        logits = probs.log().requires_grad_()
        found.append(torch.autograd.grad(estimator.expectation(f, logits), logits)[0])
    gradients = Moments()
    gradients.add(torch.stack(found))
    assert gradients.agrees_with(true_gradient(f, probs)[1])


def test_a_past_in_half_precision_stays_finite():
    estimator, logits = carms.make("carms-t", samples=6).half(), logits_of(3, 4)
    for _ in range(40):
        value = estimator.expectation(lambda z: 1e4 * network(3, 4, 3.0)(z), logits)
        torch.autograd.grad(value, logits)
    assert estimator.past.total.dtype == torch.float16
    assert estimator.past.total.isfinite().all()
    assert estimator.past.count > 20


@pytest.mark.parametrize(
    ("expectation", "shape"),
    [
        (lambda f, x: carms.expectation(f, x, "carms-t"), (2, 3)),
        (lambda f, x: carms.subsets.expectation(f, x, 2, estimator="carms-t"), (5,)),
    ],
)
def test_a_single_example_by_name_is_warned_of(expectation, shape):
    def f(z):
        return z.sin().sum([*range(-len(shape), 0)])

    with pytest.warns(UserWarning, match="cannot learn from a single example") as told:
        expectation(f, torch.zeros(shape, requires_grad=True))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expectation(f, torch.zeros(shape))  # no gradient is wanted
        expectation(f, torch.zeros(4, *shape, requires_grad=True))


def test_an_object_that_learns_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits = torch.zeros(2, 3, requires_grad=True)
        carms.make("carms-t").expectation(lambda z: z.sin().sum((-2, -1)), logits)
