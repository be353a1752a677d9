"""Options and arguments that nothing can be computed with."""

import pytest
import torch
from helpers import curved

import carms
from carms import sequences
from carms.copulas import Circular, Dirichlet
from carms.copulas.names import COPULAS
from carms.couplings import BiasedGumbelMax, GumbelMax, InverseCDF


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


def test_no_estimators_to_compare():
    message = r"estimators must be one or more names or estimators, got \[\]"
    with pytest.raises(ValueError, match=message):
        carms.compare(curved, torch.zeros(2, 2), [], replicates=2)


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
        (torch.ones(()), True, TypeError, "b must be a tensor, got bool"),
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
