"""Forward mode is right, or refused."""

from functools import partial

import pytest
import torch
from helpers import generator, logits_of
from torch.autograd import forward_ad

import carms
from carms import subsets
from carms.estimators import find

# From torch's own code.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

UNBIASED = [name for name in carms.available() if find(name).unbiased and name != "exact"]
# Those that differentiate something themselves: f, or a network.
WITH_SLOPES = [n for n in UNBIASED if n == "relax" or not find(n).black_box]
REFUSED = "this gradient cannot be differentiated once more"


def f(z):
    return (z * torch.arange(1.0, 1 + z.shape[-1])).sum((-2, -1)).sin()


def logits_for(name):
    return logits_of(5, 2, 2 if find(name).binary_only else 3)


def value_by(name):
    made = carms.make(name, samples=4)
    return lambda logits: made.expectation(f, logits, generator(2))


def value_of_paths(logits):
    paths = carms.Paths(4, generator=generator(2))
    second = paths.sample(logits).sum((-2, -1))[..., None, None] * logits
    return paths.expectation(f(paths.sample(second)).detach())


VALUES = {
    **{name: value_by(name) for name in UNBIASED if name not in WITH_SLOPES},
    "bound": lambda logits: carms.importance_bound(f, logits, generator=generator(2)),
    "paths": value_of_paths,
    "subsets": lambda logits: subsets.expectation(
        lambda z: z[..., 0].sin(), logits[:, 0], 1, generator=generator(2)
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_grad_does_not_switch_it_off(name):
    logits = (logits_for(name) if name in UNBIASED else logits_of(5, 2, 3)).detach()
    direction = torch.randn(logits.shape, generator=generator(1), dtype=logits.dtype)
    _, wanted = torch.func.jvp(VALUES[name], (logits,), (direction,))
    assert wanted.abs().sum() > 0
    with torch.no_grad():
        _, found = torch.func.jvp(VALUES[name], (logits,), (direction,))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("name", WITH_SLOPES)
def test_estimators_with_slopes_refuse_it(name, no_grad):
    logits = logits_for(name).detach()
    with (
        torch.set_grad_enabled(not no_grad),
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="nor in forward mode"),
    ):
        value_by(name)(forward_ad.make_dual(logits, torch.ones_like(logits)))


def test_slopes_of_subsets_refuse_it():
    made, logits = subsets.make("carms-t", size=2), torch.zeros(5, 3)
    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="nor in forward mode"),
    ):
        made.expectation(lambda z: z[..., 0], forward_ad.make_dual(logits, torch.ones_like(logits)))


@pytest.mark.parametrize("name", UNBIASED)
def test_mixed_derivatives_are_refused(name):
    """By way of the samples, the gradient of a tensor that ``f`` uses depends on the logits, and
    theirs on the tensor by way of the values.
    """
    logits, scale = logits_for(name), torch.tensor(0.7, requires_grad=True)
    # In train() mode learned ones raise an error of torch.
    made = carms.make(name, samples=4).eval()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(scale.detach(), torch.tensor(1.0))
        value = made.expectation(lambda z: f(dual * z), logits).sum()
        assert forward_ad.unpack_dual(value).tangent.isfinite()
        with pytest.raises(RuntimeError, match=REFUSED):
            value.backward()
        if name in WITH_SLOPES:
            return
        dual = forward_ad.make_dual(logits.detach(), torch.ones_like(logits))
        value = made.expectation(lambda z: f(scale * z), dual).sum()
        with pytest.raises(RuntimeError, match=REFUSED):
            value.backward()


def test_mixed_derivatives_elsewhere_are_refused():
    logits = logits_of(5, 2, 3)
    with forward_ad.dual_level():
        scale = forward_ad.make_dual(torch.tensor(0.7), torch.tensor(1.0))
        paths = carms.Paths(4)
        z = paths.sample(logits)
        second = paths.sample(z.sum((-2, -1))[..., None, None] * logits)
        for value in (
            paths.expectation(f(scale * second)),
            carms.importance_bound(lambda z: f(scale * z), logits),
            subsets.expectation(lambda z: (scale * z[..., 0]).sin(), logits[:, 0], 2),
        ):
            with pytest.raises(RuntimeError, match=REFUSED):
                value.sum().backward()


@pytest.mark.parametrize("name", ["carms-s", "reinforce", "ridge", "local-expectation"])
@pytest.mark.parametrize(
    "outer", [partial(torch.func.jacfwd, randomness="different"), torch.func.jacrev]
)
def test_mixed_derivatives_by_transforms_are_refused(name, outer):
    logits, scale = logits_of(5, 2, 3).detach(), torch.tensor(0.7)

    def value(scale, logits):
        return carms.expectation(lambda z: f(scale * z), logits, name, 4).sum()

    for first, second in ((0, 1), (1, 0)):
        with pytest.raises(RuntimeError, match=REFUSED):
            outer(torch.func.grad(value, argnums=first), argnums=second)(scale, logits)
    both = torch.func.grad(value, argnums=(0, 1))(scale, logits)
    assert all(each.abs().sum() > 0 for each in both)
