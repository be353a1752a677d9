"""The ways to call every registered estimator, and what they return."""

import pytest
import torch
from estimator_cases import SAMPLING, results
from helpers import (
    SOFT_POINTS,
    RandomTable,
    assert_two_steps_are_one,
    expectation,
    generator,
    logits_of,
    named,
    rows,
)

import carms
from carms.copulas import Circular, Dirichlet
from carms.couplings import InverseCDF


def test_value_is_the_mean_of_f(name, estimator, categories):
    if rows(name, 4, 2, categories) != 4 or name in ("carms-t", "unord"):
        pytest.skip("weighs its points, or has points besides its samples")
    logits, f = logits_of(6, 2, categories), RandomTable(2, categories)
    draw = estimator.sample(logits, generator(2))
    value = estimator.expectation(f, logits, generator(2))
    torch.testing.assert_close(value, f(draw.z).mean(0), rtol=1e-12, atol=0)


def test_batches_may_be_reshaped(name, categories):
    f = RandomTable(2, categories)
    flat = logits_of(6, 2, categories)
    deep = flat.detach().reshape(2, 3, 2, categories).requires_grad_()
    value, gradient = results(carms.make(name, samples=4), f, flat)
    deep_value, deep_gradient = results(carms.make(name, samples=4), f, deep)
    assert deep_value.shape == (2, 3)
    torch.testing.assert_close(deep_value.flatten(), value, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(deep_gradient.flatten(0, 1), gradient, rtol=1e-12, atol=1e-14)
    assert gradient.abs().sum() > 0


def test_two_steps_are_one(name, categories):
    weight = logits_of(2, categories, seed=1)

    def f(z):
        return (z * weight).sum((-2, -1)).square()

    logits = logits_of(4, 2, categories)
    value = carms.make(name, samples=4).expectation(f, logits, generator(8))
    gradients = torch.autograd.grad(value.sum(), (logits, weight))

    estimator = carms.make(name, samples=4)
    draw = estimator.sample(logits, generator(8))
    again = estimator.surrogate(draw, f(draw.z))
    gradients_again = torch.autograd.grad(again.sum(), (logits, weight))
    assert torch.equal(value, again)
    for one, other in zip(gradients, gradients_again, strict=True):
        assert_two_steps_are_one(name, one, other)


def test_what_is_done_to_samples_after_their_use_does_not_matter(name, categories):
    weight, logits = logits_of(2, categories, seed=1).detach(), logits_of(4, 2, categories)

    def f(z):
        return (z * weight).sum((-2, -1)).sin()

    def wiping(z):
        values = f(z)
        z.zero_()
        return values

    value, gradient = results(carms.make(name, samples=4), f, logits)
    same, found = results(carms.make(name, samples=4), wiping, logits)
    assert torch.equal(same, value)
    assert torch.equal(found, gradient)
    estimator = carms.make(name, samples=4)
    draw = estimator.sample(logits, generator(9))
    values = f(draw.z)
    draw.indices.zero_()
    (found,) = torch.autograd.grad(estimator.surrogate(draw, values).sum(), logits)
    assert_two_steps_are_one(name, gradient, found)


def test_logits_that_were_changed_since_the_draw(name, estimator, categories):
    logits = logits_of(4, 2, categories)
    draw = estimator.sample(logits, generator())
    values = RandomTable(2, categories)(draw.z)
    with torch.no_grad():
        logits[..., 0] += 1
    with pytest.raises(ValueError, match=r"changed in place.*sample from logits.clone\(\)"):
        estimator.surrogate(draw, values)


def test_what_lies_beside_the_logits_may_be_changed():
    """Torch counts the changes of all parts of a tensor together."""
    out = logits_of(4, 9) * 1
    logits, rest = out[:, :6].view(4, 2, 3), out[:, 6:]

    def f(z):
        return RandomTable(2, 3)(z) + rest.relu_().sum()

    assert carms.expectation(f, logits, "loorf", samples=4).isfinite().all()


@pytest.mark.parametrize(
    "part", [lambda table: table.view(4, 2, 3), lambda table: table.view(4, 2, 3)[1:]], ids=[0, 1]
)
def test_a_view_that_was_changed_since_the_draw(part):
    """Such as the row of a state in the table of a policy."""
    table = logits_of(4, 6)
    estimator = carms.make("reinforce", samples=4)
    draw = estimator.sample(part(table))
    with torch.no_grad():
        table.add_(torch.arange(6.0))
    with pytest.raises(ValueError, match="changed in place"):
        estimator.surrogate(draw, torch.zeros(draw.drawn.shape[:-1]))


@pytest.mark.parametrize("name", named(stateful=False))
def test_expectation_takes_a_name_or_an_object(name, categories):
    f, logits = RandomTable(2, categories), logits_of(4, 2, categories)
    made = results(carms.make(name, samples=4), f, logits, seed=1)
    for value in (
        carms.expectation(f, logits, name, 4, generator(1)),
        carms.expectation(f, logits, carms.make(name, samples=4), generator=generator(1)),
    ):
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert torch.equal(value, made[0])
        assert torch.equal(gradient, made[1])


def test_eight_samples_of_carms_s_by_default():
    f, logits = RandomTable(2, 3), logits_of(4, 2, 3)
    value = carms.expectation(f, logits, generator=generator(9))
    assert torch.equal(value.detach(), results(carms.make("carms-s", samples=8), f, logits)[0])


@pytest.mark.parametrize(
    ("name", "options"),
    [("carms-i", {"copula": Dirichlet(4)}), ("reinmax", {"coupling": InverseCDF(Circular(4))})],
)
def test_samples_are_those_of_a_copula_or_a_coupling(name, options):
    seen = []
    carms.expectation(
        lambda z: seen.append(len(z)) or z.sum((-1, -2)), logits_of(2, 3), name, **options
    )
    assert seen == [4]


def test_draws(name, estimator, categories):
    logits = logits_of(4, 5, 2, categories)
    draw = estimator.sample(logits, generator())
    count = rows(name, 4, 2, categories) or len(draw.indices)
    assert draw.indices.shape == (count, 4, 5, 2)
    assert draw.indices.dtype == torch.int64
    assert draw.z.shape == (count, 4, 5, 2, categories)
    assert draw.z.dtype == logits.dtype
    assert torch.equal(draw.z.argmax(-1), draw.indices)
    torch.testing.assert_close(draw.z.sum(-1), torch.ones_like(draw.indices).double())
    if name not in SOFT_POINTS:
        assert torch.equal(draw.z, draw.one_hot(logits.dtype))


def test_indices_instead_of_one_hot(name, categories):
    f, logits = RandomTable(2, categories), logits_of(4, 2, categories)
    seen = []

    def of_indices(indices):
        seen.append(indices)
        return f.of_indices(indices)

    if not carms.make(name, samples=4).black_box:
        with pytest.raises(ValueError, match=r"differentiates f.*one_hot=False is not possible"):
            expectation(of_indices, logits, name, 4, one_hot=False)
        return
    dense = results(carms.make(name, samples=4), f, logits)
    sparse = results(carms.make(name, samples=4), of_indices, logits, one_hot=False)
    assert seen[0].dtype == torch.int64
    assert seen[0].shape[1:] == (4, 2)
    assert torch.equal(dense[0], sparse[0])
    assert torch.equal(dense[1], sparse[1])
    by_name = expectation(of_indices, logits, name, 4, generator(9), one_hot=False)
    assert torch.equal(by_name, dense[0])


def test_a_generator_reproduces_and_spares_the_global_stream(name, categories):
    f, logits = RandomTable(2, categories), logits_of(20, 2, categories)
    before = torch.get_rng_state()
    first = results(carms.make(name, samples=4), f, logits, seed=3)
    again = results(carms.make(name, samples=4), f, logits, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


@pytest.mark.parametrize("name", SAMPLING)
def test_a_generator_moves_on(name):
    estimator, logits = carms.make(name, samples=3 if name == "unord" else 4), logits_of(50, 2, 2)
    source = generator(3)
    first, second = estimator.sample(logits, source), estimator.sample(logits, source)
    assert not torch.equal(first.indices, second.indices)


@pytest.mark.parametrize("name", SAMPLING)
def test_the_global_stream_is_used_without_a_generator(name):
    estimator, logits = carms.make(name, samples=3 if name == "unord" else 4), logits_of(50, 2, 2)
    torch.manual_seed(1)
    first, second = estimator.sample(logits), estimator.sample(logits)
    torch.manual_seed(1)
    assert torch.equal(estimator.sample(logits).indices, first.indices)
    assert not torch.equal(first.indices, second.indices)


def test_gradient_is_scaled_by_what_comes_from_above(name, categories):
    f, logits = RandomTable(2, categories), logits_of(3, 2, categories)
    value = carms.make(name, samples=4).expectation(f, logits, generator(9))
    # Zero tells carms-t nothing of an example's slopes: the scales of the others are different.
    last = 1e-3 if name == "carms-t" else 0.0
    upstream = torch.tensor([1.0, -2.0, last], dtype=torch.float64)
    (scaled,) = torch.autograd.grad(value, logits, upstream)
    _, plain = results(carms.make(name, samples=4), f, logits)
    torch.testing.assert_close(scaled, upstream.view(3, 1, 1) * plain, rtol=1e-12, atol=1e-14)
