"""The door: what is refused there, and what ``f`` may do to its samples."""

import warnings

import pytest
import torch
from helpers import COPULAS, curved, expectation, generator
from torch.distributions import Bernoulli, Categorical, OneHotCategorical

import carms
from carms import sequences
from carms.copulas import Circular, Dirichlet
from carms.core.checks.tensors import _memory_of
from carms.couplings import BiasedGumbelMax, GumbelMax, InverseCDF

NAMES = carms.available()


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def nested(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor(list(x))


def quantized(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)


UNUSUAL = {
    "sparse": (torch.Tensor.to_sparse, "ordinary dense tensor, got one of layout torch.sparse_coo"),
    "nested": (nested, "ordinary dense tensor, got a nested one"),
    "meta": (lambda x: x.to("meta"), "ordinary dense tensor, got one on the meta device"),
    "float8": (lambda x: x.to(torch.float8_e4m3fn), "16 bits or more, got torch.float8_e4m3fn"),
    "complex": (lambda x: x.to(torch.complex64), r"got torch\.complex64"),
    "quantized": (quantized, r"got torch\.quint8"),
}


@pytest.fixture(params=UNUSUAL)
def unusual(request):
    return UNUSUAL[request.param]


def test_unusual_logits(unusual):
    make, message = unusual
    logits = make(torch.zeros(2, 3, 2))
    for call in (
        lambda: carms.expectation(curved, logits),
        lambda: carms.expectation(curved, (torch.zeros(2, 3, 2), logits)),
        lambda: carms.make("rebar").sample(logits),
        lambda: carms.make("carms-t").expectation(curved, logits),
        lambda: carms.importance_bound(curved, logits),
        lambda: carms.compare(curved, logits, ["loorf"]),
        lambda: carms.Paths().sample(logits),
    ):
        with pytest.raises(TypeError, match=f"logits must be .*{message}"):
            call()


@pytest.mark.parametrize("kind", ["meta", "float8"])
@pytest.mark.parametrize("family", [Bernoulli, Categorical, OneHotCategorical])
def test_distributions_of_unusual_logits(family, kind):
    make, message = UNUSUAL[kind]
    given = family(probs=torch.full((2, 3, 2), 0.5), validate_args=False)
    inner = getattr(given, "_categorical", given)
    inner.probs = inner._param = make(torch.full((2, 3, 2), 0.5))
    with pytest.raises(TypeError, match=f"parameter of the distribution must be .*{message}"):
        carms.expectation(curved, given)


def test_unusual_values(name, unusual):
    make, message = unusual
    estimator = carms.make(name, samples=4)

    def f(z):
        return make(curved(z).detach())

    with pytest.raises(TypeError, match=f"the values of f must be .*{message}"):
        estimator.expectation(f, torch.zeros(2, 3, 2))
    draw = estimator.sample(torch.zeros(2, 3, 2))
    with pytest.raises(TypeError, match=f"the values of f must be .*{message}"):
        estimator.surrogate(draw, f(draw.z))


def test_unusual_terms(unusual):
    make, message = unusual
    with pytest.raises(
        TypeError, match=f"terms must be .*{message.replace('16 bits or more, ', '')}"
    ):
        carms.expectation(curved, torch.zeros(2, 3, 2), terms=make(torch.eye(3)))


def test_unusual_probabilities(unusual):
    make, message = unusual
    coupling = InverseCDF(Circular(3))
    probs = make(torch.full((2, 2), 0.5))
    for call in (coupling.sample, coupling.pmf, coupling.draw):
        with pytest.raises(TypeError, match=f"probs must be .*{message}"):
            call(probs)
    with pytest.raises(TypeError, match=f"probs must be .*{message}"):
        coupling.pair_ratio(probs, torch.zeros(3, 2, dtype=torch.long))


@pytest.mark.parametrize(
    ("name", "option", "value", "kind"),
    [
        ("double-cv", "scale", float("nan"), ValueError),
        ("double-cv", "scale", float("inf"), ValueError),
        ("double-cv", "scale", "1", TypeError),
        ("rebar", "scale", 1e308, ValueError),
        ("rebar", "temperature", 1e-300, ValueError),
        ("reinforce", "baseline", float("inf"), ValueError),
        ("direct-argmax", "epsilon", 1e-300, ValueError),
        ("ridge", "penalty", True, TypeError),
        ("gapped-st", "gap", 10**400, ValueError),
        ("rodeo", "hidden", -1, ValueError),
        ("rodeo", "hidden", 10**9, ValueError),
        ("relax", "hidden", 0, ValueError),
        ("relax", "network", "net", TypeError),
        ("gr-mc", "draws", 10**30, ValueError),
        ("carms-g-biased", "extra", 10**9, ValueError),
        ("carms-s", "orderings", 10**30, ValueError),
        ("loorf", "samples", 10**30, ValueError),
    ],
)
def test_options_that_nothing_can_be_computed_with(name, option, value, kind):
    with pytest.raises(kind, match=option) as caught:
        carms.make(name, **{option: value})
    assert caught.value.__context__ is None


@pytest.mark.parametrize("network", [torch.nn.Linear(5, 1), torch.nn.Linear(6, 1).half()])
def test_a_network_that_does_not_fit_the_samples(network):
    estimator = carms.make("relax", samples=3, network=network)
    logits = torch.zeros(5, 3, 2, requires_grad=True)
    message = r"network of relax must map \[3, 5, 6\] to \[3, 5, 1\] in torch\.float32"
    with pytest.raises(ValueError, match=message):
        estimator.expectation(curved, logits)


@pytest.mark.parametrize("estimators", [[None], ["loorf", 3], [], 5])
def test_estimators_that_cannot_be_compared(estimators):
    with pytest.raises(ValueError, match="estimator"):
        carms.compare(curved, torch.zeros(2, 2), estimators, replicates=2)


def test_samples_of_a_comparison():
    with pytest.raises(TypeError, match="samples must be a whole number, got '4'"):
        carms.compare(curved, torch.zeros(2, 2), samples="4", replicates=2)


@pytest.mark.parametrize("f", [None, 3])
def test_what_cannot_be_called(f):
    for name in ("loorf", "carms-t"):
        with pytest.raises(TypeError, match=f"f must be a function, got {f}"):
            carms.expectation(f, torch.zeros(2, 2), name)
    with pytest.raises(TypeError, match=f"log_weight must be a function, got {f}"):
        carms.importance_bound(f, torch.zeros(2, 2))


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


@pytest.mark.parametrize("kind", [0, 1], ids=["tensor", "Bernoulli"])
def test_f_may_return_a_view_of_its_samples(name, kind):
    def view(z):
        return z[..., 0] if kind else z[..., 0, 0]

    expected = results(name, lambda z: view(z).clone(), kind)
    for found, right in zip(results(name, view, kind), expected, strict=True):
        assert torch.equal(found, right)


def test_an_f_that_indexes_an_empty_batch_is_told_so(name):
    with pytest.raises(IndexError) as caught:
        expectation(lambda z: z[:, 0].sum() + curved(z), torch.zeros(0, 3, 2), name, 4)
    (note,) = caught.value.__notes__
    assert note.startswith("The batch is empty: f was given samples of shape [")
    assert note.endswith(", 0, 3, 2].")


def test_draws_of_others_are_refused(name):
    estimator, logits = carms.make(name, samples=4), torch.zeros(5, 3, 2)
    draw = carms.make(name, samples=4).sample(logits)
    with pytest.raises(ValueError, match=f"cannot use a draw of another {name}"):
        estimator.surrogate(draw, torch.zeros(len(draw.indices), 5))
    with pytest.raises(TypeError, match=r"draw must come from .*\.sample, got Tensor"):
        estimator.surrogate(draw.z, torch.zeros(len(draw.indices), 5))


@pytest.mark.parametrize("name", [each for each in NAMES if each != "exact"])
def test_a_draw_that_does_not_fit_into_memory(name, monkeypatch):
    monkeypatch.setattr("carms.core.checks.tensors._memory_of", lambda _: 1 << 30)
    monkeypatch.setattr(torch, "rand", None)
    with pytest.raises(ValueError, match=r"would take at least [\d,]+ GB of memory, but cpu has 1"):
        expectation(curved, torch.zeros(3, 2), name, samples=10**9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: carms.expectation(curved, torch.zeros(3, 2), "carms-s", samples=100_000),
        lambda: carms.expectation(curved, torch.zeros(2, 1 << 20), "carms-s", samples=1000),
        lambda: carms.expectation(curved, torch.zeros(100, 100), "local-expectation", samples=1000),
        lambda: carms.expectation(curved, torch.zeros(2, 1000), "arsm"),
        lambda: carms.expectation(curved, torch.zeros(2, 0, 2), "loorf", samples=10**9),
        lambda: carms.expectation(curved, torch.zeros(1 << 16, 16, 2), "exact"),
        lambda: carms.importance_bound(curved, torch.zeros(3, 2), samples=100_000),
        lambda: InverseCDF(Circular(3)).pmf(torch.ones(1 << 16)),
        lambda: Circular(3).sample((1 << 30,)),
        lambda: carms.sequences.rollouts(lambda t, c: (t, c), torch.zeros(1, 0).long(), 4, 10**9),
    ],
    ids=range(10),
)
def test_what_does_not_fit_into_memory(call, monkeypatch):
    monkeypatch.setattr("carms.core.checks.tensors._memory_of", lambda _: 1 << 30)
    with pytest.raises(ValueError, match=r"would take at least [\d,]+ GB of memory, but cpu has 1"):
        call()


def test_the_memory_of_this_machine():
    assert 1 << 28 < _memory_of("cpu") < 1 << 50
    assert _memory_of("another") == 1 << 40


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"shape": 3}, TypeError, "shape must be a sequence of sizes, got 3"),
        ({"shape": (2.5,)}, TypeError, r"whole number, got 2\.5"),
        ({"shape": (-1,)}, ValueError, r"none negative, got \[-1\]"),
        ({"dtype": torch.int64}, TypeError, "dtype must be floating point .*got torch.int64"),
        ({"dtype": torch.float8_e5m2}, TypeError, "dtype must be floating point .*float8_e5m2"),
        ({"device": "nosuch"}, ValueError, "device 'nosuch' cannot be used here"),
        ({"device": "meta"}, ValueError, "device 'meta' cannot be used here: it has no values"),
        ({"generator": 0}, TypeError, "generator must be a torch.Generator, got 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_samples_of_a_copula(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Circular(3).sample(**{"shape": (2,), **arguments})


@pytest.mark.parametrize("copula", COPULAS)
@pytest.mark.parametrize(
    ("a", "b", "kind", "message"),
    [
        ("x", torch.ones(()), TypeError, "a must be a tensor, got str"),
        (torch.ones(()), 1.0, TypeError, "b must be a tensor, got float"),
        (
            torch.ones(2),
            torch.ones(2).long(),
            TypeError,
            "b must be floating point, got torch.int64",
        ),
        (torch.ones(2), torch.ones(3), ValueError, r"broadcast, got \[2\] and \[3\]"),
    ],
    ids=range(4),
)
def test_arguments_of_a_cdf(copula, a, b, kind, message):
    with pytest.raises(kind, match=message):
        COPULAS[copula](3).cdf(a, b)


@pytest.mark.parametrize(
    "coupling",
    [
        InverseCDF(Circular(3)),
        InverseCDF(Dirichlet(3)),
        GumbelMax(Dirichlet(3)),
        BiasedGumbelMax(Dirichlet(3)),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("indices", "kind", "message"),
    [
        ([0, 1, 2], TypeError, "indices must be a tensor of integers, got list"),
        (torch.tensor([0.0, 1.0, 2.0]), TypeError, "indices must be integers, got torch.float32"),
        (torch.tensor([0, 1, 4]), ValueError, "from 0 to 3, one of the 4 categories, got .* to 4"),
        (torch.tensor([0, 1, -1]), ValueError, "from 0 to 3, .* got some from -1 to 1"),
        (torch.tensor([[0, 1, 2]]), ValueError, r"= \[N\] for probs .* got shape \[1, 3\]"),
        (torch.tensor([0, 1, 3]), ValueError, "got one whose probability is zero"),
    ],
    ids=range(6),
)  # fmt: skip
def test_indices_of_pair_ratios(coupling, indices, kind, message):
    # The last one is zero in half precision.
    probs = torch.tensor([0.2, 0.3, 0.5, 1e-9], dtype=torch.float16)
    with pytest.raises(kind, match=message):
        coupling.pair_ratio(probs, indices)
    with pytest.raises(TypeError, match="probs must be a tensor"):
        coupling.pair_ratio(probs.tolist(), indices)


def test_indices_of_any_integers():
    coupling, probs = InverseCDF(Circular(3)), torch.tensor([0.2, 0.3, 0.5])
    indices = torch.tensor([0, 1, 2])
    expected = coupling.pair_ratio(probs, indices)
    assert torch.equal(coupling.pair_ratio(probs, indices.to(torch.uint8)), expected)


NOTHING, ONES = torch.zeros(2, 0, dtype=torch.long), torch.ones(2, 4)


def rollouts(step=lambda tokens, cache: (torch.zeros(len(tokens), 3), cache), **options):
    return sequences.rollouts(step, **{"prompts": NOTHING, "samples": 4, "length": 3, **options})


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda g: sequences.advantages([0.0], g), TypeError, r"rewards must be a tensor \[P, N\]"),
        (lambda g: sequences.pair_ratio(g.tokens), TypeError, "rollouts must come from"),
        (lambda g: sequences.surrogate(ONES, None, g), TypeError, "log_probs must be a tensor"),
        (lambda g: sequences.surrogate(ONES, ONES / 0, g), ValueError, "8 of 8 log_probs are NaN"),
        (lambda _: sequences.default_epsilon(0), ValueError, "samples must be at least 1, got 0"),
        (lambda _: sequences.causal_lm(None), TypeError, "model must be a function, got None"),
        (lambda _: rollouts(top_p=1e-300), ValueError, "probability above 0, got 1e-300"),
        (lambda _: rollouts(step=lambda *_: 3), TypeError, r"return \(logits, cache\), got int"),
        (lambda _: rollouts(prompts=NOTHING.to("meta")), TypeError, "prompts must be an ordinary"),
    ],
    ids=range(9),
)
def test_sequences(call, kind, message):
    with pytest.raises(kind, match=message):
        call(rollouts())
