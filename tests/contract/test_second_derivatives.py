"""Second derivatives are refused, unless they are right."""

import pytest
import torch
from helpers import generator
from torch.autograd import forward_ad

import carms
from carms import sequences, subsets
from carms.estimators import find

DIRECTION = torch.randn(2, 3, generator=generator(1), dtype=torch.float64)
WEIGHTS = torch.randn(2, 3, generator=generator(2), dtype=torch.float64)
UNBIASED = [name for name in carms.available() if find(name).unbiased and name != "exact"]
# `gumbel-softmax` is an ordinary function of the logits and its noise.
REFUSING = [name for name in carms.available() if name != "exact" and not find(name).soft]
REFUSED = "this gradient cannot be differentiated once more"


def f(z):
    total = (z * WEIGHTS[:, : z.shape[-1]]).sum((-2, -1))
    return total.sin() + total**2


def twice(value, angle):
    (first,) = torch.autograd.grad(value.sum(), angle, create_graph=True)
    return torch.autograd.grad(first.sum(), angle)[0]


def angle_and_logits(name="loorf"):
    """Logits that come from a network, though a small one."""
    angle = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    categories = 2 if find(name).binary_only else 3
    return angle, (angle * DIRECTION[:, :categories]).sinh()


@pytest.mark.parametrize("name", REFUSING)
def test_no_second_derivative_of_an_estimate(name):
    angle, logits = angle_and_logits(name)
    with pytest.raises(RuntimeError, match=REFUSED):
        twice(carms.make(name, samples=4).expectation(f, logits), angle)


def test_those_of_the_exact_expectation_are_right():
    def value(angle):
        return carms.expectation(f, (angle * DIRECTION).sinh(), "exact")

    angle, _ = angle_and_logits()
    assert torch.autograd.gradgradcheck(value, angle)


@pytest.mark.parametrize("name", UNBIASED)
def test_those_of_other_tensors_are_right(name):
    """Values are linear in the square of a tensor, whose second derivative is known."""
    other = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    _, logits = angle_and_logits(name)
    made = carms.make(name, samples=4)
    value = made.expectation(lambda z: f(z) + other**2, logits)
    assert twice(value, other).item() == pytest.approx(2)


@pytest.mark.parametrize("name", UNBIASED)
def test_mixed_derivatives_are_refused(name):
    """By way of the samples, the gradient of a tensor that ``f`` uses depends on the logits."""
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    _, logits = angle_and_logits(name)
    value = carms.make(name, samples=4).expectation(lambda z: f(scale * z), logits).sum()
    (first,) = torch.autograd.grad(value, scale, create_graph=True)
    assert torch.autograd.grad(first, scale, retain_graph=True)[0].isfinite()
    with pytest.raises(RuntimeError, match=REFUSED):
        torch.autograd.grad(first, logits, retain_graph=True)
    with pytest.raises(RuntimeError, match=REFUSED):
        (value + first**2).backward()


def test_mixed_derivatives_elsewhere():
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def refused(value):
        (first,) = torch.autograd.grad(value.sum(), scale, create_graph=True)
        with pytest.raises(RuntimeError, match=REFUSED):
            (first**2).backward()

    _, logits = angle_and_logits()
    refused(carms.importance_bound(lambda z: f(scale * z), logits))
    for name in ("carms", "carms-t", "loorf", "unord"):
        made = subsets.make(name, size=2, samples=4)
        refused(made.expectation(lambda z: (scale * z[..., 0]).sin(), logits[0].expand(5, 3)))
    paths = carms.Paths(samples=4)
    refused(paths.expectation(f(scale * paths.sample(logits))))
    log_probs = logits[:1].expand(4, 1, 3).sum(-1).T
    rewards = (scale * torch.arange(4.0)).sin().expand(1, 4)
    refused(sequences.surrogate(rewards, log_probs, torch.ones(1, 4, 4)))


@pytest.mark.parametrize("name", ["carms-s", "reinforce", "local-expectation", "straight-through"])
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_reverse_over_forward_mode_is_refused(name):
    logits = torch.randn(2, 3, generator=generator(3), dtype=torch.float64, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(logits, DIRECTION)
        value = carms.expectation(f, dual, name, samples=4)
        assert forward_ad.unpack_dual(value).tangent is not None
        with pytest.raises(RuntimeError, match=REFUSED):
            torch.autograd.grad(value, logits)


def test_elsewhere_too():
    angle, logits = angle_and_logits()
    with pytest.raises(RuntimeError, match=REFUSED):
        twice(carms.importance_bound(f, logits), angle)
    for name in ("carms", "straight-through"):
        made = subsets.make(name, size=2, samples=4)
        with pytest.raises(RuntimeError, match=REFUSED):
            twice(made.expectation(lambda z: z[..., 0].sin(), logits[0]), angle)

    paths = carms.Paths(samples=4)
    second = paths.sample(logits).sum((-2, -1))[:, None, None] * logits
    values = f(paths.sample(second)).detach()
    with pytest.raises(RuntimeError, match=REFUSED):
        twice(paths.expectation(values), angle)

    log_probs = (angle * torch.ones(1, 4)).sinh()
    rewards = torch.arange(4.0).expand(1, 4)
    with pytest.raises(RuntimeError, match=REFUSED):
        twice(sequences.surrogate(rewards, log_probs, torch.ones(1, 4, 4)), angle)


@pytest.mark.parametrize("name", ["carms-s", "reinforce", "ridge", "local-expectation"])
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_forward_mode_is_refused_too(name):
    logits = torch.randn(2, 3, generator=generator(3), dtype=torch.float64)

    def value(x):
        return carms.expectation(f, x, name, samples=4)

    def slope(x):
        return torch.func.jvp(value, (x,), (DIRECTION,))[1]

    for again in (
        lambda: torch.func.jvp(slope, (logits,), (DIRECTION,)),
        lambda: torch.func.grad(slope)(logits),
        lambda: torch.func.jvp(torch.func.grad(value), (logits,), (DIRECTION,)),
    ):
        with pytest.raises(RuntimeError, match=REFUSED):
            again()
