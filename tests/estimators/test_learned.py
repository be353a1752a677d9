"""Estimators that learn from call to call."""

import pytest
import torch
from helpers import (
    LEARNED,
    curved,
    dirichlet_probs,
    expectation,
    generator,
    gradient_of,
    logits_of,
    replicate,
)
from torch.nn.parameter import UninitializedParameter

import carms


@pytest.mark.parametrize("name", LEARNED)
def test_training_lowers_the_variance(name):
    probs = dirichlet_probs(1.0, 3, 4, seed=3, floor=0.02)
    options = {"double-cv": {"scale": 0.0}, "rebar": {"scale": 0.0}}.get(name, {})
    estimator = carms.make(name, samples=3, **options)
    logits = probs.log().expand(50, 3, 4).clone().requires_grad_()

    def variance():
        _, moments = replicate(
            estimator.eval(), lambda z, _: curved(z), probs.log(), 20_000, seed=5
        )
        return moments.variance.sum().item()

    before = variance()
    optimiser = torch.optim.Adam(estimator.parameters(), lr=0.02)
    estimator.train()
    for _ in range(200):
        optimiser.zero_grad()
        estimator.expectation(curved, logits).sum().backward()
        optimiser.step()
    assert variance() < 0.8 * before


@pytest.mark.parametrize("name", LEARNED)
def test_teaching_does_not_depend_on_what_comes_from_above(name):
    estimator = carms.make(name, samples=3)
    logits = logits_of(5, 2, 3)
    estimator.expectation(curved, logits)

    def taught(scale):
        estimator.zero_grad()
        (scale * estimator.expectation(curved, logits, generator(3)).mean()).backward()
        return [parameter.grad.clone() for parameter in estimator.parameters()]

    for one, other in zip(taught(1.0), taught(-7.0), strict=True):
        assert torch.equal(one, other)
    assert any(gradient.abs().sum() > 0 for gradient in taught(1.0))
    estimator.zero_grad()
    estimator.eval().expectation(curved, logits).sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in estimator.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_is_saved(name):
    logits = logits_of(5, 2, 3)
    first = carms.make(name, samples=3)
    first.expectation(curved, logits)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    second = carms.make(name, samples=3)
    second.load_state_dict(first.state_dict())
    assert torch.equal(gradient_of(first, curved, logits), gradient_of(second, curved, logits))


def test_relax_takes_a_network_of_the_user():
    network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ELU(), torch.nn.Linear(5, 1))
    estimator = carms.make("relax", samples=3, network=network.double())
    assert set(network.parameters()) <= set(estimator.parameters())
    assert gradient_of(estimator, curved, logits_of(5, 2, 3)).isfinite().all()


def test_relax_has_its_shapes_at_once_if_it_is_told_them():
    logits = logits_of(5, 2, 3)
    lazy, told = carms.make("relax", samples=3), carms.make("relax", samples=3, features=6)
    assert any(isinstance(each, UninitializedParameter) for each in lazy.parameters())
    assert not any(isinstance(each, UninitializedParameter) for each in told.parameters())
    optimiser = torch.optim.Adam(told.parameters(), lr=0.02)
    assert torch.equal(gradient_of(lazy, curved, logits), gradient_of(told, curved, logits))
    assert {key: value.shape for key, value in told.state_dict().items()} == {
        key: value.shape for key, value in lazy.state_dict().items()
    }
    before = [parameter.detach().clone() for parameter in told.parameters()]
    for seed in range(3):
        told.expectation(curved, logits, generator(seed)).sum().backward()
        optimiser.step()
    for old, new in zip(before, told.parameters(), strict=True):
        assert not torch.equal(old, new)


def test_relax_without_memory():
    class Large(torch.nn.Module):
        def forward(self, soft):
            raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        gradient_of(carms.make("relax", network=Large()), curved, logits_of(5, 2, 3))


def test_relax_of_other_shapes():
    estimator = carms.make("relax", samples=3, features=5)
    with pytest.raises(ValueError, match=r"the network of relax must map \[3, 5, 6\]"):
        gradient_of(estimator, curved, logits_of(5, 2, 3))
    with pytest.raises(ValueError, match="got features=6 beside a network"):
        carms.make("relax", network=torch.nn.Linear(6, 1), features=6)
    with pytest.raises(ValueError, match="features must be at least 1, got 0"):
        carms.make("relax", features=0)


@pytest.mark.parametrize("name", [*LEARNED, "muprop"])
def test_function_transforms_are_refused_with_advice(name):
    def value(row):
        return expectation(curved, row, name, samples=4)

    with pytest.raises(RuntimeError, match="make a batch dimension of what is mapped over"):
        torch.func.vmap(torch.func.grad(value), randomness="different")(torch.zeros(5, 2, 3))


@pytest.mark.parametrize("name", LEARNED)
def test_teaching_beside_impossible_categories_is_finite(name):
    logits = torch.tensor([[0.0, 1.0, -torch.inf], [0.3, 0.1, 0.2]]).double().requires_grad_()
    estimator = carms.make(name, samples=3)
    for seed in range(5):
        estimator.expectation(curved, logits, generator(seed)).backward()
    assert logits.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in estimator.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_frozen_parameters_learn_nothing(name):
    estimator, logits = carms.make(name, samples=3), logits_of(5, 2, 3)
    estimator.expectation(curved, logits)
    estimator.requires_grad_(False)
    assert gradient_of(estimator, curved, logits).isfinite().all()


def test_a_network_of_the_wrong_shape():
    estimator = carms.make("relax", samples=3, network=torch.nn.Flatten(-2, -1))
    with pytest.raises(ValueError, match=r"the network of relax must map \[3, 5, 6\] to"):
        gradient_of(estimator, curved, logits_of(5, 2, 3))


@pytest.mark.parametrize("name", LEARNED)
def test_teaching_beside_the_lowest_number_there_is(name):
    logits = logits_of(5, 2, 3).detach().float()
    logits[..., 0] = torch.finfo(torch.float32).min
    estimator = carms.make(name, samples=3)
    estimator.expectation(curved, logits.requires_grad_(), generator()).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in estimator.parameters())


@pytest.mark.parametrize("name", ["double-cv", "rebar"])
def test_teaching_is_the_slope_of_the_squared_gradient_of_an_example(name):
    logits = logits_of(5, 2, 3)

    def square(scale):
        estimator = carms.make(name, samples=3, scale=scale)
        return gradient_of(estimator, curved, logits).square().sum().item() / 5

    estimator = carms.make(name, samples=3, scale=0.5)
    estimator.expectation(curved, logits, generator(1)).sum().backward()
    # The gradient is linear in the scale, so that the difference of squares is exact.
    slope = (square(0.75) - square(0.25)) / 0.5
    assert estimator.scale.grad.item() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("name", ["double-cv", "rodeo"])
def test_slopes_that_are_not_finite_are_refused(name):
    estimator = carms.make(name, samples=4)
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(lambda z: (1 - z).sqrt().sum((-2, -1)), logits_of(5, 2, 3))
    assert all(p.grad is None for p in estimator.parameters())


@pytest.mark.parametrize("name", ["double-cv", "rodeo"])
def test_slopes_of_impossible_categories_do_not_matter(name):
    logits = logits_of(5, 2, 3).detach()
    logits[..., 2] = -torch.inf
    logits.requires_grad_()

    def f(z):
        return curved(z) + z[..., 2].sqrt().sum(-1)

    carms.make(name, samples=4).expectation(f, logits).sum().backward()
    assert logits.grad.isfinite().all()
