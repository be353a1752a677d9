"""Value and gradient of every registered estimator against enumeration."""

from dataclasses import replace

import pytest
import torch
from estimator_cases import (
    BIASED,
    NAMES,
    REPLICATES,
    TRUE_VALUE,
    UNBIASED,
    Setting,
    suits,
    untaught,
)
from helpers import (
    BINARY_ONLY,
    LEARNED,
    Moments,
    RandomTable,
    configurations,
    dirichlet_probs,
    generator,
    logits_of,
    replicate,
)

import carms
from carms.copulas import Dirichlet
from carms.couplings import InverseCDF
from carms.estimators import Carms

SETTINGS = [
    *(Setting(a, d, 3, 4) for a in (0.1, 1, 1000) for d in (1, 3)),
    *(Setting(a, d, 2, 4) for a in (0.1, 1, 1000) for d in (1, 3)),
    Setting(1, 1, 3, 2),
    Setting(1, 1, 3, 8),
]

VARIANTS = {
    "carms-s, 3 orderings": ("carms-s", {"orderings": 3}),
    "carms-s, epsilon": ("carms-s", {"epsilon": 0.2}),
    "carms-i, one": ("carms-i", {"orderings": "largest-first"}),
    "carms-i, epsilon": ("carms-i", {"orderings": "given", "epsilon": 0.2}),
    "carms-i, reflected": ("carms-i", {"copula": "dirichlet-reflected"}),
    "carms-i, reflected, one": (
        "carms-i",
        {"copula": "dirichlet-reflected", "orderings": "largest-first"},
    ),
    "carms-i, gaussian": ("carms-i", {"copula": "gaussian"}),
    "carms-i, stratified": ("carms-i", {"copula": "stratified"}),
    "carms-i, circular": ("carms-i", {"copula": "circular"}),
    "carms-i, independent": ("carms-i", {"copula": "independent"}),
    "carms-g, epsilon": ("carms-g", {"epsilon": 0.5, "samples": 3}),
    "carts, epsilon": ("carts", {"epsilon": 0.2}),
    "disarm-tree, stick-breaking": ("disarm-tree", {"tree": "stick-breaking"}),
    "rebar, cold and strong": ("rebar", {"temperature": 0.1, "scale": 2.0}),
    "double-cv, weak": ("double-cv", {"scale": 0.3}),
    "unord, two of nine": ("unord", {"samples": 2}),
    "unord, eight of nine": ("unord", {"samples": 8}),
    "local-expectation, one": ("local-expectation", {"samples": 1}),
    "arsm, one": ("arsm", {"samples": 1}),
    "rodeo, two": ("rodeo", {"samples": 2}),
    "ridge, weak": ("ridge", {"penalty": 0.01, "samples": 6}),
    "ridge, strong": ("ridge", {"penalty": 3.0}),
    "reinforce, constant": ("reinforce", {"baseline": 0.7}),
    "reinforce, running mean": ("reinforce", {"baseline": "running-mean"}),
}


def everywhere(names, settings):
    return [
        pytest.param(name, setting, id=f"{name}-{'-'.join(map(str, setting))}")
        for name in names
        for setting in settings
        if suits(name, setting.categories)
        # Two categories are all that some estimators know, and a special case of the others.
        and (name in BINARY_ONLY or setting.categories > 2 or setting.concentration == 1)
    ]


def moments(name, setting, **options):
    """Of value and gradient under the setting's ``f``."""
    estimator = untaught(name, setting.samples, **options)
    f = setting.f
    return replicate(estimator, lambda z, _: f(z), setting.probs.log(), REPLICATES)


def test_there_is_something_to_test():
    assert {"arms", "carms-g", "carms-i", "carms-s", "disarm", "exact", "loorf"} <= set(NAMES)
    assert list(NAMES) == sorted(NAMES)
    assert UNBIASED
    assert BIASED


@pytest.mark.parametrize(("name", "setting"), everywhere(UNBIASED, SETTINGS))
def test_value_and_gradient_are_unbiased(name, setting):
    value, gradient = setting.f.expectation(setting.probs)
    values, gradients = moments(name, setting)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("name", BIASED)
def test_gradient_of_a_biased_estimator_is_off(name):
    setting = Setting(1, 2, 3, 4)
    value, gradient = setting.f.expectation(setting.probs)
    # The bias of a finite difference is of the second order.
    options = {"step": 2.0} if name == "finite-difference" else {}
    values, gradients = moments(name, setting, **options)
    if name in TRUE_VALUE:
        assert values.agrees_with(value)
    assert not gradients.agrees_with(gradient)


@pytest.mark.parametrize("setting", [Setting(a, d, 3, 3) for a in (0.1, 1, 1000) for d in (1, 3)])
@pytest.mark.parametrize("name", LEARNED)
def test_gradient_is_unbiased_after_training(name, setting):
    torch.manual_seed(0)
    estimator, f = carms.make(name, samples=setting.samples), setting.f
    logits = setting.probs.log().expand(20, -1, -1).clone().requires_grad_()
    estimator.expectation(f, logits)  # shapes the parameters of `relax`
    before = [parameter.detach().clone() for parameter in estimator.parameters()]
    optimiser = torch.optim.Adam(estimator.parameters(), lr=0.02)
    for _ in range(200):
        optimiser.zero_grad()
        estimator.expectation(f, logits).sum().backward()
        optimiser.step()
    for old, new in zip(before, estimator.parameters(), strict=True):
        assert not torch.equal(old, new)
    values, gradients = replicate(
        estimator.eval(), lambda z, _: f(z), setting.probs.log(), REPLICATES
    )
    value, gradient = f.expectation(setting.probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_variants_are_unbiased(variant):
    name, options = VARIANTS[variant]
    setting = Setting(1, 1 if name == "carms-g" else 2, 3, 4)
    f = setting.f
    value, gradient = f.expectation(setting.probs)
    estimator = carms.make(name, **{"samples": 4, **options})
    assert estimator.unbiased
    if name != "reinforce":
        estimator.eval()
    values, gradients = replicate(estimator, lambda z, _: f(z), setting.probs.log(), REPLICATES)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


def test_groups_of_a_coupling_are_unbiased():
    setting = Setting(1, 2, 3, 6)
    f = setting.f
    _, gradient = f.expectation(setting.probs)
    estimator = Carms(InverseCDF(Dirichlet(3), "all"), groups=2)
    assert estimator.samples == 6
    _, gradients = replicate(estimator, lambda z, _: f(z), setting.probs.log(), REPLICATES)
    assert gradients.agrees_with(gradient)


def test_a_lost_pair_would_be_noticed():
    """The power of these tests: LOORF on antithetic samples is biased, and they see it."""
    setting = Setting(1, 1, 3, 4)
    f = setting.f
    correlated, loorf = carms.make("carms-i", samples=4), carms.make("loorf", samples=4)

    class Uncorrected(type(loorf)):
        def sample(self, logits, generator=None):
            return replace(correlated.sample(logits, generator), maker=self)

    _, gradients = replicate(Uncorrected(4), lambda z, _: f(z), setting.probs.log(), REPLICATES)
    assert not gradients.agrees_with(f.expectation(setting.probs)[1])


@pytest.mark.parametrize("variables", [1, 3])
@pytest.mark.parametrize("categories", [2, 3])
def test_exact_is_exact(variables, categories):
    setting = Setting(0.1, variables, categories, 4)
    logits = setting.probs.log().requires_grad_()
    value = carms.expectation(setting.f, logits, "exact")
    value.backward()
    expected, gradient = setting.f.expectation(setting.probs)
    assert value.item() == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(logits.grad, gradient, rtol=0, atol=1e-12)


def elbo(f, logits, prior):
    """``f`` plus the log ratio of a prior and the distribution itself."""
    log_ratio = prior.log_softmax(-1) - logits.log_softmax(-1)
    return lambda z: f(z) + (z * log_ratio).sum((-2, -1))


@pytest.mark.parametrize("name", [*UNBIASED, "exact"])
def test_logits_inside_f_get_both_parts_of_the_gradient(name):
    categories = 3 if suits(name, 3) else 2
    probs = dirichlet_probs(1.0, 2, categories, seed=3, floor=0.02)
    f = RandomTable(2, categories)
    prior = torch.randn(2, categories, generator=generator(1), dtype=torch.float64)

    leaf = probs.log().requires_grad_()
    points = configurations(2, categories)
    weights = (leaf.softmax(-1) * points).sum(-1).prod(-1)
    truth = (weights * elbo(f, leaf, prior)(points)).sum()
    (gradient,) = torch.autograd.grad(truth, leaf)

    values, gradients = replicate(
        untaught(name, 4),
        lambda z, logits: elbo(f, logits, prior)(z),
        probs.log(),
        REPLICATES if name != "exact" else 10,
    )
    assert values.agrees_with(truth.detach())
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("name", TRUE_VALUE)
def test_other_tensors_get_their_gradient(name):
    categories, replicates = 3 if suits(name, 3) else 2, 100_000
    logits = logits_of(2, categories)
    weight = logits_of(2, categories, seed=1)
    truth = carms.expectation(lambda z: (z * weight).sum((-2, -1)).exp(), logits, "exact")
    (expected,) = torch.autograd.grad(truth, weight)
    leaf = weight.detach().expand(replicates, 2, categories).clone().requires_grad_()
    value = untaught(name, 4).expectation(
        lambda z: (z * leaf).sum((-2, -1)).exp(),
        logits.detach().expand(replicates, 2, categories).clone().requires_grad_(),
        generator(4),
    )
    moments = Moments()
    moments.add(torch.autograd.grad(value.sum(), leaf)[0])
    assert moments.agrees_with(expected)
