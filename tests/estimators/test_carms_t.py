"""CARMS-T: unbiased, in one pass or two, in any precision."""

import pytest
import torch
from carms_t_cases import REPLICATES, in_groups, network, quadratic, scaled, true_gradient
from helpers import (
    RandomTable,
    curved,
    dirichlet_probs,
    generator,
    logits_of,
    replicate,
)
from torch.distributions import Bernoulli

import carms


@pytest.mark.parametrize("group", [1, 2, 3, 50])
@pytest.mark.parametrize("steepness", [0.5, 6.0])
@pytest.mark.parametrize("variables", [1, 3])
@pytest.mark.parametrize("concentration", [0.1, 1, 1000])
def test_unbiased_whatever_the_batch(concentration, variables, steepness, group):
    probs = dirichlet_probs(concentration, variables, 3, seed=7, floor=0.01)
    f = network(variables, 3, steepness)
    estimator = in_groups(group, samples=4)
    rows = 10_000 - 10_000 % group
    values, gradients = replicate(
        estimator, lambda z, _: f(z), probs.log(), 20 * rows, chunk=rows, seed=group
    )
    value, gradient = true_gradient(f, probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize(("samples", "neighbours"), [(2, 1), (3, 2), (5, 4), (10, 2)])
def test_unbiased_with_any_number_of_neighbours(samples, neighbours):
    probs, f = dirichlet_probs(1.0, 2, 3, seed=7, floor=0.01), RandomTable(2, 3, seed=11)
    estimator = in_groups(5, samples=samples, neighbours=neighbours)
    values, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), REPLICATES)
    value, gradient = f.expectation(probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("scales", [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (-0.7, 2.0)])
def test_unbiased_whatever_the_scales(scales):
    probs, f = dirichlet_probs(0.5, 3, 3, seed=7, floor=0.01), RandomTable(3, 3, seed=11)
    estimator = scaled(*scales, samples=5)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), REPLICATES)
    assert gradients.agrees_with(f.expectation(probs)[1])


def test_without_scales_it_is_carms_s():
    logits, f = logits_of(6, 2, 3), network(2, 3, 1.0)
    estimator = scaled(0.0, 0.0, samples=5, neighbours=2)
    gradient = torch.autograd.grad(estimator.expectation(f, logits, generator(3)).sum(), logits)[0]
    draw = estimator.sample(logits, generator(3))
    carms_s = carms.make("carms-s", samples=3)
    same = carms_s.sample(logits, generator(3))
    assert torch.equal(same.indices, draw.indices[:3])
    value = carms_s.surrogate(same, f(same.z))
    torch.testing.assert_close(gradient, torch.autograd.grad(value.sum(), logits)[0])


@pytest.mark.parametrize("batch", [(), (1,), (7,), (2, 3)])
@pytest.mark.parametrize("samples", [2, 3, 9])
def test_one_pass_is_two_passes(batch, samples):
    logits, weight = logits_of(*batch, 2, 3), logits_of(2, 3, seed=3)
    upstream = torch.rand(batch, dtype=torch.float64, generator=generator(8)) + 0.5

    def f(z):
        inside = (z * logits.log_softmax(-1)).sum((-2, -1))
        return ((z * weight).sum((-2, -1))).sin() - inside + 100

    estimator = carms.make("carms-t", samples=samples)
    one = estimator.expectation(f, logits, generator(4))
    draw = estimator.sample(logits, generator(4))
    two = estimator.surrogate(draw, f(draw.z))
    torch.testing.assert_close(one, two)
    gradients = [
        torch.autograd.grad((upstream * value).sum(), (logits, weight)) for value in (one, two)
    ]
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second)


def test_a_loss_beside_the_value_does_not_disturb_the_two_step_form():
    logits = logits_of(4, 2, 3)
    estimator = carms.make("carms-t", samples=4)
    gradients = []
    for beside in (0.0, 5.0):
        draw = estimator.sample(logits, generator(4))
        loss = estimator.surrogate(draw, quadratic(draw.z)).sum()
        loss = loss + beside * draw.z.square().sum()
        gradients.append(torch.autograd.grad(loss, logits)[0])
    torch.testing.assert_close(*gradients)


def test_bits_are_categories():
    logits, f = logits_of(6, 3), network(3, 2, 1.0)
    bits = carms.make("carms-t", samples=5).expectation(
        lambda z: f(torch.stack((1 - z, z), -1)), Bernoulli(logits=logits), generator(2)
    )
    both = torch.stack((torch.zeros_like(logits), logits), -1)
    categories = carms.make("carms-t", samples=5).expectation(f, both, generator(2))
    torch.testing.assert_close(bits, categories)
    torch.testing.assert_close(
        *(torch.autograd.grad(value.sum(), logits)[0] for value in (bits, categories))
    )


def test_infinite_slopes_of_what_never_happens_do_not_matter():
    logits = torch.tensor([[0.0, -torch.inf, 1.0]]).expand(20, 1, 3).clone().requires_grad_()
    carms.expectation(
        lambda z: (z[..., 1].sqrt() + z[..., 2] ** 2).sum(-1), logits, "carms-t", samples=5
    ).sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(("steepness", "limit"), [(0.3, 0.1), (1.0, 0.3), (3.0, 1.05), (8.0, 1.05)])
def test_variance_against_carms_s_on_the_same_base_samples(steepness, limit):
    torch.manual_seed(2)
    probs = dirichlet_probs(1.0, 6, 5, seed=1, floor=0.01)
    f, logits = network(6, 5, steepness), probs.log().expand(5000, 6, 5)
    found = []
    for estimator in (in_groups(50, samples=10), carms.make("carms-s", samples=8)):
        leaf = logits.clone().requires_grad_()
        gradient = torch.autograd.grad(estimator.expectation(f, leaf).sum(), leaf)[0]
        found.append(gradient.var(0).sum())
    assert found[0] < limit * found[1]


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype, size):
    logits = logits_of(40, 2, 3).detach().to(dtype)
    weight = torch.randn(2, 3, generator=generator(1))
    gradients = []
    for given in (logits, logits.float()):
        leaf = given.clone().requires_grad_()
        value = carms.make("carms-t", samples=6).expectation(
            lambda z: size * (z.float() * weight).sum((-2, -1)).sin(), leaf, generator(2)
        )
        gradients.append(torch.autograd.grad(value.sum() / size, leaf)[0].float())
    # Slopes that come through a small share of the value would underflow.
    torch.testing.assert_close(*gradients, rtol=0.01, atol=2e-3)


def test_autocast():
    logits, weight = logits_of(40, 2, 3).float().detach(), torch.randn(6, 4)
    leaf = logits.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = carms.expectation(
            lambda z: (z.flatten(-2) @ weight).sin().float().sum(-1), leaf, "carms-t"
        )
    value.sum().backward()
    assert leaf.grad.isfinite().all()


def test_an_example_that_nobody_asks_for_disturbs_nobody():
    logits = logits_of(3, 2, 3)
    value = carms.make("carms-t", samples=4).expectation(quadratic, logits, generator(1))
    value[:2].sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[2] == 0).all()
    assert logits.grad[:2].abs().min() > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_f_may_write_on_its_samples(dtype):
    logits, gradients = logits_of(4, 2, 3), []
    for dirty in (False, True):

        def f(z, dirty=dirty):
            if dirty:
                z = z.mul_(2)
            return quadratic(z if dirty else 2 * z).to(dtype)

        value = carms.make("carms-t", samples=4).expectation(f, logits, generator(1))
        gradients.append(torch.autograd.grad(value.sum(), logits)[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 1}, "carms-t needs at least 2 samples, got samples=1"),
        ({"samples": 4, "neighbours": 4}, "got neighbours=4 of samples=4"),
        ({"samples": 4, "neighbours": 0}, "got neighbours=0 of samples=4"),
    ],
)
def test_bad_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        carms.make("carms-t", **options)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_slopes_that_are_not_finite(batch):
    logits = logits_of(*batch, 2, 3)
    estimator = carms.make("carms-t", samples=4)

    def f(z):
        return (1 - z).sqrt().sum((-2, -1))

    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(f, logits).sum().backward()
    draw = estimator.sample(logits)
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.surrogate(draw, f(draw.z))


def test_slopes_of_neighbours_that_are_not_finite():
    # Only the category that base samples hardly ever have is bad.
    logits = torch.tensor([[9.0, 0.0]]).expand(4, 1, 2).clone().requires_grad_()
    estimator = carms.make("carms-t", samples=4)
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(lambda z: (1 - z[..., 1]).sqrt().sum(-1), logits).sum().backward()


def test_an_infinite_loss_is_not_the_fault_of_the_slopes():
    logits = logits_of(4, 2, 3)
    value = carms.expectation(quadratic, logits, "carms-t", samples=4)
    (gradient,) = torch.autograd.grad(value.sum() * torch.inf, logits)
    assert gradient.isnan().all()


def test_an_f_in_half_precision_has_a_backward_pass_of_its_own():
    logits = logits_of(40, 2, 3).float().detach().requires_grad_()
    weight = torch.randn(2, 3, generator=generator(1))

    def gradient(dtype):
        value = carms.make("carms-t", samples=6).expectation(
            lambda z: (z.to(dtype) * weight.to(dtype)).sum((-2, -1)).sin(), logits, generator(2)
        )
        return torch.autograd.grad(1e-4 * value.float().sum(), logits)[0]

    torch.testing.assert_close(
        gradient(torch.float16), gradient(torch.float32), rtol=0.02, atol=5e-7
    )


def test_values_in_half_precision_are_one_call_of_the_past():
    estimator = carms.make("carms-t", samples=4)
    logits = torch.zeros(2, 3, requires_grad=True)
    estimator.expectation(lambda z: curved(z).half(), logits, generator()).backward()
    assert estimator.past.count == 1
