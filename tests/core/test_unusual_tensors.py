"""Tensors of an unusual kind, refused wherever they enter."""

import warnings

import pytest
import torch
from helpers import curved
from torch.distributions import Bernoulli, Categorical, OneHotCategorical

import carms
from carms.copulas import Circular
from carms.couplings import InverseCDF


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


@pytest.mark.parametrize("name", carms.available())
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
