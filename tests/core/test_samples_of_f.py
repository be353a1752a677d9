"""What ``f`` may do to its samples, and whose draws are refused."""

import pytest
import torch
from helpers import curved, expectation, generator
from torch.distributions import Bernoulli, Categorical

import carms


def given_kinds(leaf):
    """The same logits as a tensor, a distribution and groups."""
    return leaf, Bernoulli(logits=leaf[..., 0]), (leaf, Categorical(logits=leaf))


def linear(*z):
    return sum((each.flatten(2) ** 2).sum(-1) for each in z)


def results(name, f, kind, two_steps=False):
    leaf = torch.randn(5, 3, 2, generator=generator(), requires_grad=True)
    given = given_kinds(leaf)[kind]
    estimator = carms.make(name, samples=4)
    if two_steps:
        draw = estimator.sample(given, generator(1))
        z = draw.z
        value = estimator.surrogate(draw, f(*z) if isinstance(z, tuple) else f(z))
    else:
        value = estimator.expectation(f, given, generator(1))
    return value, *torch.autograd.grad(value.sum(), leaf)


@pytest.mark.parametrize("name", carms.available())
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["tensor", "Bernoulli", "groups"])
def test_f_may_write_on_its_samples(name, kind):
    def writes(*z):
        for each in z:
            each.mul_(2).add_(1)
        return linear(*z)

    for two_steps in (False, True):
        expected = results(name, lambda *z: linear(*[each * 2 + 1 for each in z]), kind, two_steps)
        for found, right in zip(results(name, writes, kind, two_steps), expected, strict=True):
            torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", carms.available())
def test_what_is_written_on_samples_does_not_stay_in_their_draw(name):
    logits = torch.randn(5, 3, 2, generator=generator(), requires_grad=True)
    draw = carms.make(name, samples=4).sample(logits, generator(1))
    before = draw.z.detach().clone()
    draw.z.mul_(2).add_(1)
    assert torch.equal(draw.z, before)


@pytest.mark.parametrize("name", carms.available())
@pytest.mark.parametrize("kind", [0, 1], ids=["tensor", "Bernoulli"])
def test_f_may_return_a_view_of_its_samples(name, kind):
    def view(z):
        return z[..., 0] if kind else z[..., 0, 0]

    expected = results(name, lambda z: view(z).clone(), kind)
    for found, right in zip(results(name, view, kind), expected, strict=True):
        assert torch.equal(found, right)


@pytest.mark.parametrize("name", carms.available())
def test_an_f_that_indexes_an_empty_batch_is_told_so(name):
    with pytest.raises(IndexError) as caught:
        expectation(lambda z: z[:, 0].sum() + curved(z), torch.zeros(0, 3, 2), name, 4)
    (note,) = caught.value.__notes__
    assert note.startswith("The batch is empty: f was given samples of shape [")
    assert note.endswith(", 0, 3, 2].")


@pytest.mark.parametrize("name", carms.available())
def test_draws_of_others_are_refused(name):
    estimator, logits = carms.make(name, samples=4), torch.zeros(5, 3, 2)
    draw = carms.make(name, samples=4).sample(logits)
    with pytest.raises(ValueError, match=f"cannot use a draw of another {name}"):
        estimator.surrogate(draw, torch.zeros(len(draw.indices), 5))
    with pytest.raises(TypeError, match=r"draw must come from .*\.sample, got Tensor"):
        estimator.surrogate(draw.z, torch.zeros(len(draw.indices), 5))
