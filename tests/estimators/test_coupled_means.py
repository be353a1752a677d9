"""Means over coupled samples: the same expectation, less variance, and no pair ratio."""

import pytest
import torch
from helpers import (
    assert_frequencies,
    curved,
    dirichlet_probs,
    expected_gradient,
    generator,
    gradient_of,
    logits_of,
    network,
    polynomial,
    replicate,
)

import carms
from carms.copulas import Circular, Gaussian
from carms.copulas.names import COPULAS
from carms.couplings import GumbelMax, InverseCDF
from carms.sampling.independent import independent_samples

COUPLED = [name for name in COPULAS if name != "independent"]
# Their gradient depends on the hard sample alone, so that its expectation is a finite sum.
WITHOUT_NOISE = ["gapped-st", "reinmax", "straight-through"]
WITH_COUPLING = [*WITHOUT_NOISE, "gr-mc", "reinmax-cv", "reinmax-rao"]


@pytest.mark.parametrize(
    ("name", "coupling"),
    [
        *((name, "circular") for name in WITHOUT_NOISE),
        *(("reinmax", coupling) for coupling in COUPLED if coupling != "circular"),
        ("reinmax", InverseCDF(Circular(4), orderings=3, epsilon=0.2)),
    ],
    ids=str,
)
def test_expectation_is_that_of_independent_samples(name, coupling):
    probs, f = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1), polynomial(3)
    expected = expected_gradient(carms.make(name, samples=1), f, probs)
    estimator = carms.make(name, samples=4, coupling=coupling)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 200_000)
    assert gradients.agrees_with(expected)


def test_samples_of_the_wrong_distribution_would_be_noticed():
    class Moved(InverseCDF):
        def sample_unchecked(self, probs, generator):
            # Three samples in a hundred become the first category.
            indices = super().sample_unchecked(probs, generator)
            moved = torch.rand(indices.shape, generator=generator) < 0.03
            return torch.where(moved, 0, indices)

    probs, f = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1), polynomial(3)
    expected = expected_gradient(carms.make("reinmax", samples=1), f, probs)
    estimator = carms.make("reinmax", coupling=Moved(Circular(4)))
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 200_000)
    assert not gradients.agrees_with(expected)


def variance(name, f, probs, **options):
    """Total variance of the gradient with five samples."""
    estimator = carms.make(name, samples=5, **options)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 4_000)
    return gradients.variance.sum().item()


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *(("reinmax", 0.8), ("gapped-st", 0.8), ("gr-mc", 0.8)),
        *(("reinmax-rao", 0.8), ("reinmax-cv", 0.8), ("straight-through", 0.95)),
    ],
)
def test_circular_samples_lower_the_variance(name, limit):
    problem = network(3, 5), dirichlet_probs(1.0, 3, 5, seed=2)
    assert variance(name, *problem, coupling="circular") < limit * variance(name, *problem)


@pytest.mark.parametrize(
    "coupling", [*COUPLED, GumbelMax(Circular(4)), InverseCDF(Gaussian(4), "all")], ids=str
)
def test_every_sample_has_the_right_distribution_under_a_mask(coupling):
    probs = torch.tensor([[0.5, 0.0, 0.2, 0.3], [0.0, 0.1, 0.0, 0.9]], dtype=torch.float64)
    draws = 50_000
    estimator = carms.make("reinmax", samples=4, coupling=coupling)
    draw = estimator.sample(probs.log().expand(draws, 2, 4), generator())
    frequency = draw.one_hot(torch.float64).mean(1)
    assert_frequencies(frequency, probs.expand(4, 2, 4), draws)


@pytest.mark.parametrize("name", WITH_COUPLING)
def test_the_default_is_independent_samples_bit_for_bit(name):
    logits = logits_of(6, 2, 3)
    draw = carms.make(name, samples=4).sample(logits, generator(5))
    expected = independent_samples(logits.softmax(-1), 4, generator(5))
    assert torch.equal(draw.indices, expected)
    default = gradient_of(carms.make(name, samples=4), curved, logits)
    named = gradient_of(carms.make(name, samples=4, coupling="independent"), curved, logits)
    assert torch.equal(default, named)
    coupled = gradient_of(carms.make(name, samples=4, coupling="circular"), curved, logits)
    assert not torch.equal(default, coupled)


@pytest.mark.parametrize("name", WITH_COUPLING)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masks_and_precisions(name, dtype):
    logits = torch.tensor([[0.3, float("-inf"), 0.1], [2.0, 1.0, -1.0]], dtype=dtype)
    logits = logits.expand(50, 2, 3).clone().requires_grad_()
    value = carms.expectation(curved, logits, name, 4, generator(), coupling="circular")
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.dtype == dtype
    assert gradient.isfinite().all()
    assert (gradient[:, 0, 1] == 0).all()
    assert (gradient[:, 0, 0] != 0).any()


# From torch's own code.
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("coupling", ["circular", "dirichlet"])
def test_forward_mode_is_the_backward_mode(coupling):
    logits, direction = logits_of(3, 2, 3).detach(), logits_of(3, 2, 3, seed=1).detach()

    def value(x):
        return carms.expectation(curved, x, "reinmax", 4, generator(2), coupling=coupling).sum()

    _, tangent = torch.func.jvp(value, (logits,), (direction,))
    gradient = torch.func.grad(value)(logits)
    torch.testing.assert_close(tangent, (gradient * direction).sum())


def test_no_pair_ratio_is_computed():
    class WithoutRatios(Circular):
        def lift(self, *intervals):
            raise AssertionError("a mean needs no ratio")

    coupling = InverseCDF(WithoutRatios(4))
    logits = logits_of(6, 2, 3)
    assert gradient_of(carms.make("reinmax", coupling=coupling), curved, logits).isfinite().all()
    with pytest.raises(AssertionError, match="a mean needs no ratio"):
        coupling.draw(logits.softmax(-1))


def test_a_coupling_brings_its_own_number_of_samples():
    coupling = InverseCDF(Circular(10))
    assert carms.make("reinmax", coupling=coupling).samples == 10
    assert carms.make("reinmax", samples=10, coupling=coupling).samples == 10
    assert carms.make("reinmax", coupling="circular").samples == 8
    assert repr(carms.make("reinmax", samples=4)) == "reinmax(samples=4)"
    named = carms.make("reinmax", coupling="circular")
    assert repr(named) == "reinmax(samples=8, coupling='circular')"
    assert repr(carms.make("straight-through", coupling=coupling)) == (
        "straight-through(samples=10, "
        "coupling=InverseCDF(copula=Circular(samples=10), orderings='given'))"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"samples": 4, "coupling": InverseCDF(Circular(10))},
            r"samples=4, but the coupling is InverseCDF\(copula=Circular\(samples=10\)",
        ),
        (
            {"coupling": "cyclic"},
            "coupling is a Coupling .*one of dirichlet, dirichlet-reflected, gaussian, "
            "stratified, circular, independent, got 'cyclic'",
        ),
        ({"coupling": Circular(4)}, r"coupling is a Coupling .*got Circular\(samples=4\)"),
        ({"coupling": None}, "coupling is a Coupling .*got None"),
        ({"samples": 1, "coupling": "circular"}, "Circular couples at least 2 samples, got .*=1"),
        ({"samples": 0}, "needs at least 1 sample, got samples=0"),
    ],
)
@pytest.mark.parametrize("name", WITH_COUPLING)
def test_couplings_that_do_not_fit(name, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        carms.make(name, **options)
    assert caught.value.__context__ is None
