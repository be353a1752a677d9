"""The contract: every registered estimator goes through the same tests."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    LEARNED,
    NOT_TANGENT,
    SOFT_POINTS,
    Moments,
    RandomTable,
    configurations,
    dirichlet_probs,
    generator,
    replicate,
    rows,
)
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import carms
from carms.copulas import Dirichlet
from carms.couplings import InverseCDF
from carms.estimators import Carms

REPLICATES = 200_000
NAMES = carms.available()


class Setting(NamedTuple):
    concentration: float
    variables: int
    categories: int
    samples: int

    @property
    def probs(self):
        # A rarer category would never be seen in so many replicates, and no test see its gradient.
        shape = self.variables, self.categories
        return dirichlet_probs(self.concentration, *shape, seed=7, floor=0.01)

    @property
    def f(self):
        return RandomTable(self.variables, self.categories, seed=11)


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


def suits(name, categories):
    return categories == 2 or name not in BINARY_ONLY


def everywhere(names, settings):
    return [
        pytest.param(name, setting, id=f"{name}-{'-'.join(map(str, setting))}")
        for name in names
        for setting in settings
        if suits(name, setting.categories)
        # Two categories are all that some estimators know, and a special case of the others.
        and (name in BINARY_ONLY or setting.categories > 2 or setting.concentration == 1)
    ]


def moments(name, setting):
    """Of value and gradient under the setting's ``f``."""
    estimator = untaught(name, setting.samples)
    f = setting.f
    return replicate(estimator, lambda z, _: f(z), setting.probs.log(), REPLICATES)


def untaught(name, samples):
    """As it is made, learned or not."""
    return carms.make(name, samples=samples).eval()


SAMPLING = [name for name in NAMES if name != "exact"]
UNBIASED = [name for name in SAMPLING if carms.make(name, samples=4).unbiased]
# Soft samples give a biased value.
TRUE_VALUE = [name for name in SAMPLING if not carms.estimators.find(name).soft]
BIASED = [name for name in SAMPLING if name not in UNBIASED]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def categories(name):
    return 3 if suits(name, 3) else 2


@pytest.fixture
def estimator(name):
    return carms.make(name, samples=4)


def logits_of(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=generator(seed), dtype=dtype, requires_grad=True)


def test_there_is_something_to_test():
    assert {"arms", "carms-g", "carms-i", "carms-s", "disarm", "exact", "loorf"} <= set(NAMES)
    assert list(NAMES) == sorted(NAMES)
    assert UNBIASED
    assert BIASED


def test_declared_facts(estimator):
    assert type(estimator.unbiased) is bool
    assert type(estimator.black_box) is bool


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
    values, gradients = moments(name, setting)
    if name in TRUE_VALUE:
        assert values.agrees_with(value)
    # The bias of a finite difference is of the second order.
    assert not gradients.agrees_with(gradient) or name == "finite-difference"


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


@pytest.mark.parametrize("name", SAMPLING)
def test_bernoulli(name):
    probs = torch.tensor([0.2, 0.65, 0.5], dtype=torch.float64)
    f = RandomTable(3, 2, seed=5)
    value, gradient = f.expectation(torch.stack((1 - probs, probs), -1))
    estimator = untaught(name, 4)
    seen = []

    def of_bits(z, _):
        seen.append(z.detach())
        return f.of_bits(z)

    values, gradients = replicate(
        estimator,
        of_bits,
        probs.logit(),
        REPLICATES,
        wrap=lambda logits: Bernoulli(logits=logits),
    )
    assert seen[0].shape[1:] == (10_000, 3)
    if name not in SOFT_POINTS:
        assert set(seen[0].unique().tolist()) == {0.0, 1.0}
    if name in TRUE_VALUE:
        assert values.agrees_with(value)
    if estimator.unbiased:
        assert gradients.agrees_with(gradient[:, 1])


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


def test_value_is_the_mean_of_f(name, estimator, categories):
    if rows(name, 4, 2, categories) != 4 or name in ("carms-t", "unord"):
        pytest.skip("weighs its points, or has points besides its samples")
    logits, f = logits_of(6, 2, categories), RandomTable(2, categories)
    draw = estimator.sample(logits, generator(2))
    value = estimator.expectation(f, logits, generator(2))
    torch.testing.assert_close(value, f(draw.z).mean(0), rtol=1e-12, atol=0)


def results(estimator, f, logits, seed=9, **options):
    value = estimator.expectation(f, logits, generator(seed), **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


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
        assert torch.equal(one, other)


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


def test_eight_samples_of_carms_s_unless_told():
    f, logits = RandomTable(2, 3), logits_of(4, 2, 3)
    value = carms.expectation(f, logits, generator=generator(9))
    assert torch.equal(value.detach(), results(carms.make("carms-s", samples=8), f, logits)[0])


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
            carms.expectation(of_indices, logits, name, 4, one_hot=False)
        return
    dense = results(carms.make(name, samples=4), f, logits)
    sparse = results(carms.make(name, samples=4), of_indices, logits, one_hot=False)
    assert seen[0].dtype == torch.int64
    assert seen[0].shape[1:] == (4, 2)
    assert torch.equal(dense[0], sparse[0])
    assert torch.equal(dense[1], sparse[1])
    by_name = carms.expectation(of_indices, logits, name, 4, generator(9), one_hot=False)
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


@pytest.mark.parametrize("distribution", [Categorical, OneHotCategorical])
@pytest.mark.parametrize("given", ["logits", "probs"])
def test_categorical_distributions(name, categories, distribution, given):
    f, logits = RandomTable(2, categories), logits_of(5, 2, categories)
    parameter = logits if given == "logits" else logits.softmax(-1)
    value = carms.make(name, samples=4).expectation(
        f, distribution(**{given: parameter}), generator(9)
    )
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    plain = results(carms.make(name, samples=4), f, logits)
    torch.testing.assert_close(value.detach(), plain[0], rtol=1e-12, atol=1e-14)
    if name not in NOT_TANGENT:
        torch.testing.assert_close(gradient, plain[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("distribution", [Categorical, OneHotCategorical])
def test_the_variables_of_one_example(distribution):
    f, logits = RandomTable(2, 3), logits_of(5, 2, 3)
    estimator = carms.make("carms-s", samples=4)
    given = Independent(distribution(logits=logits), 1)
    value = estimator.expectation(f, given, generator(9))
    assert torch.equal(value, estimator.expectation(f, logits, generator(9)))
    bits = Bernoulli(logits=logits_of(5, 2))
    value = estimator.expectation(RandomTable(2, 2).of_bits, Independent(bits, 1), generator(9))
    same = estimator.expectation(RandomTable(2, 2).of_bits, bits, generator(9))
    assert torch.equal(value, same)


@pytest.mark.parametrize("given", ["logits", "probs"])
def test_bernoulli_is_two_categories(name, given):
    f, logits = RandomTable(2, 2), logits_of(5, 2)
    parameter = logits if given == "logits" else logits.sigmoid()
    estimator = carms.make(name, samples=4)
    bernoulli = Bernoulli(**{given: parameter})
    draw = estimator.sample(bernoulli, generator(9))
    assert draw.z.shape == draw.indices.shape
    if name not in SOFT_POINTS:
        assert torch.equal(draw.z, draw.indices.double())
    value = carms.make(name, samples=4).expectation(f.of_bits, bernoulli, generator(9))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    both = torch.stack((torch.zeros_like(logits), logits), -1).detach().requires_grad_()
    plain = results(carms.make(name, samples=4), f, both)
    torch.testing.assert_close(value.detach(), plain[0], rtol=1e-12, atol=1e-14)
    if name not in NOT_TANGENT:
        torch.testing.assert_close(gradient, plain[1][..., 1], rtol=1e-9, atol=1e-12)


def test_certain_probabilities_of_distributions(name, categories):
    # torch would clamp these probabilities; a category of probability zero is never drawn.
    probs = torch.zeros(500, 2, categories, dtype=torch.float64)
    probs[..., 1] = 1
    probs.requires_grad_()
    estimator = carms.make(name, samples=4)
    f = RandomTable(2, categories)
    for given in (Categorical(probs=probs), OneHotCategorical(probs=probs)):
        value = estimator.expectation(f, given)
        torch.testing.assert_close(value, f.values[1, 1].expand(500))
        assert torch.autograd.grad(value.sum(), probs)[0].isfinite().all()
    certain = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(500, 2).clone().requires_grad_()
    pair, estimator = RandomTable(2, 2), carms.make(name, samples=4)
    value = estimator.expectation(pair.of_bits, Bernoulli(probs=certain))
    torch.testing.assert_close(value, pair.values[0, 1].expand(500))
    assert torch.autograd.grad(value.sum(), certain)[0].isfinite().all()


def test_gradient_is_scaled_by_what_comes_from_above(name, categories):
    f, logits = RandomTable(2, categories), logits_of(3, 2, categories)
    value = carms.make(name, samples=4).expectation(f, logits, generator(9))
    # Zero tells carms-t nothing of an example's slopes: the scales of the others are different.
    last = 1e-3 if name == "carms-t" else 0.0
    upstream = torch.tensor([1.0, -2.0, last], dtype=torch.float64)
    (scaled,) = torch.autograd.grad(value, logits, upstream)
    _, plain = results(carms.make(name, samples=4), f, logits)
    torch.testing.assert_close(scaled, upstream.view(3, 1, 1) * plain, rtol=1e-12, atol=1e-14)


def test_running_mean_is_that_of_past_calls_and_is_saved():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean", decay=0.5)
    logits = logits_of(3, 2, 3)

    def gradient(made, shift):
        return results(made, lambda z: shift + z[..., 0].sum(-1), logits)[1]

    # The first call has no past: the gradient of plain REINFORCE.
    plain = carms.make("reinforce", samples=4)
    torch.testing.assert_close(gradient(estimator, 100.0), gradient(plain, 100.0))
    saved = {key: value.clone() for key, value in estimator.state_dict().items()}
    assert saved
    second = gradient(estimator, 100.0)
    assert second.abs().max() < gradient(plain, 100.0).abs().max() / 10

    resumed = carms.make("reinforce", samples=4, baseline="running-mean", decay=0.5)
    resumed.load_state_dict(saved)
    torch.testing.assert_close(gradient(resumed, 100.0), second)


def test_running_mean_learns_only_where_a_gradient_is_wanted():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    logits = logits_of(3, 2, 3)
    assert estimator.stateful
    assert not carms.make("reinforce", samples=4, baseline=1.0).stateful
    before = {key: value.clone() for key, value in estimator.state_dict().items()}

    def unchanged():
        return all(torch.equal(before[key], value) for key, value in estimator.state_dict().items())

    with torch.no_grad():
        estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert unchanged()
    estimator.eval()
    estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert unchanged()
    estimator.train()
    estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert not unchanged()


def test_constant_baseline_shifts_f():
    logits = logits_of(3, 2, 3)
    f = RandomTable(2, 3)
    _, shifted = results(carms.make("reinforce", samples=4), lambda z: f(z) - 0.7, logits)
    _, baseline = results(carms.make("reinforce", samples=4, baseline=0.7), f, logits)
    torch.testing.assert_close(baseline, shifted, rtol=1e-12, atol=1e-14)


def variance(name, samples, probs, f, replicates):
    """Of the gradient, summed over the logits."""
    estimator = carms.make(name, samples=samples)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), replicates)
    return gradients.variance.sum().item()


def test_circular_strata_more_than_halve_the_variance():
    ratios = []
    for seed in range(10):
        problem = dirichlet_probs(1.0, 1, 10, seed=seed), RandomTable(1, 10, seed=seed), 10_000
        ratios.append(variance("carms-s", 10, *problem) / variance("loorf", 10, *problem))
    assert sum(ratios) / len(ratios) < 0.5


@pytest.mark.parametrize(
    ("name", "limit"), [("carms-i", 0.95), ("carms-g", 0.95), ("carms-s", 0.5)]
)
def test_negative_dependence_lowers_the_variance(name, limit):
    problem = dirichlet_probs(1000.0, 1, 5), RandomTable(1, 5), 50_000
    assert variance(name, 5, *problem) < limit * variance("loorf", 5, *problem)


@pytest.mark.parametrize("touch", [lambda d: None, lambda d: d.entropy(), lambda d: d.logits])
def test_probabilities_of_a_distribution_stay_what_they_are(touch):
    # Asked for logits, torch makes them of probabilities that it has clamped.
    weight = torch.tensor([1e6, 1.0, 2.0])
    categorical = Categorical(probs=torch.tensor([[0.0, 0.5, 0.5]]))
    touch(categorical)
    value = carms.expectation(lambda z: (z * weight).sum((-2, -1)), categorical, "exact")
    assert value.item() == 1.5
    bernoulli = Bernoulli(probs=torch.tensor([1.0]))
    touch(bernoulli)
    value = carms.expectation(lambda z: 1e6 * (1 - z).sum(-1), bernoulli, "exact")
    assert value.item() == 0


def test_contributions_do_not_move_the_running_mean():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    draw, values = estimator.sample(logits_of(3, 2, 3), generator()), torch.randn(4, 3)
    estimator.surrogate(draw, values)
    before = {key: value.clone() for key, value in estimator.state_dict().items()}
    first = estimator.contributions(draw, values)
    assert torch.equal(estimator.contributions(draw, values), first)
    for key, value in estimator.state_dict().items():
        assert torch.equal(before[key], value)


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_running_mean_keeps_that_share_of_the_past(decay):
    logits = logits_of(3, 2, 3)

    def gradient(made, value):
        return results(made, lambda z: value + 0 * z.sum((-2, -1)), logits)[1]

    estimator = carms.make("reinforce", samples=4, baseline="running-mean", decay=decay)
    for value in (10.0, 30.0):
        gradient(estimator, value)
    past = (decay * 10 + 30) / (decay + 1)
    expected = gradient(carms.make("reinforce", samples=4, baseline=past), 50.0)
    torch.testing.assert_close(gradient(estimator, 50.0), expected, rtol=1e-5, atol=1e-5)
