"""Losses that are sums: masks and values that are refused, and estimators that take no terms."""

import pytest
import torch
from helpers import expectation, logits_of
from helpers.terms import REFUSES, TAKES

import carms


def one_each(z):
    return z[..., 0]


def raises(kind, message, f=one_each, name="loorf", logits=None, **options):
    """Exactly one error, not the consequence of another."""
    logits = torch.zeros(5, 3, 2) if logits is None else logits
    with pytest.raises(kind, match=message) as caught:
        expectation(f, logits, name, samples=4, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", REFUSES)
def test_refused_by_name(name):
    estimator = carms.make(name, samples=4)
    message = rf"{name}\(samples=4.*takes no terms: .*; let f return their sum"
    raises(ValueError, message, name=name, terms=torch.eye(3))
    assert len(estimator.no_terms) > 20


def test_refused_with_a_running_mean():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    with pytest.raises(ValueError, match=r"reinforce.*takes no terms: its running mean"):
        estimator.expectation(one_each, torch.zeros(3, 2), terms=torch.eye(3))


def test_some_take_terms_and_some_do_not():
    assert {"loorf", "carms-s", "carms-i", "carms-g", "carts", "arms", "unord"} <= set(TAKES)
    assert {"straight-through", "rebar"} <= set(REFUSES)


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize(
    "shape", [(3,), (3, 2), (1, 3, 3), ()], ids=["vector", "transposed", "batch", "number"]
)
def test_mask_of_the_wrong_shape(name, shape):
    message = rf"terms must be \[K, D\].*D = 3 variables; got shape \[{', '.join(map(str, shape))}"
    raises(ValueError, message, name=name, terms=torch.ones(shape))


@pytest.mark.parametrize("terms", [[[1, 0, 0]], 3, True, "all"])
def test_mask_of_another_type(terms):
    message = rf"terms must be a tensor \[K, D\] of zeros and ones, got {type(terms).__name__}"
    raises(TypeError, message, terms=terms)


@pytest.mark.parametrize("number", [0.5, -1.0, 2.0, float("nan"), float("inf")])
def test_mask_with_other_numbers(number):
    terms = torch.eye(3)
    terms[1, 1] = number
    raises(ValueError, "terms must be zeros and ones .*got other numbers", terms=terms)


def test_a_variable_without_terms():
    terms = torch.eye(3)
    terms[1, 1] = 0
    raises(ValueError, "no term depends on variable 1: .*column of terms needs a one", terms=terms)
    nothing = torch.zeros(0, 3)
    raises(
        ValueError, "no term depends on variable 0, 1, 2", lambda z: z[..., :0, 0], terms=nothing
    )


@pytest.mark.parametrize(
    ("f", "got"),
    [
        (lambda z: z.sum((-2, -1)), r"\[4, 5\]; with terms, f returns each term and not their sum"),
        (lambda z: z[..., :2, 0], r"\[4, 5, 2\]"),
        (lambda z: z, r"\[4, 5, 3, 2\]"),
        (lambda z: z[0, ..., 0], r"\[5, 3\]"),
    ],
    ids=["summed", "too few", "too deep", "one sample"],
)
def test_f_that_does_not_return_the_terms(f, got):
    message = rf"each of the 3 terms, \[N, \*batch, K\] = \[4, 5, 3\], got shape {got}"
    raises(ValueError, message, f, terms=torch.eye(3))


def test_f_of_terms_that_are_no_numbers():
    message = r"the values of f must be a tensor \[N, \*batch, K\] = \[4, 5, 3\], got list"
    raises(TypeError, message, lambda z: [z], terms=torch.eye(3))
    raises(TypeError, "floating point", lambda z: z[..., 0].long(), terms=torch.eye(3))
    infinite = "NaN or infinity for 60 of 60"
    raises(ValueError, infinite, lambda z: z[..., 0] + torch.inf, terms=torch.eye(3))


def test_one_value_per_variable_without_terms_is_told_of_them():
    raises(ValueError, r"terms=torch\.eye\(3\)", lambda z: z[..., 0], logits=torch.zeros(3, 2))


def test_surrogate_and_contributions_check_as_well():
    estimator = carms.make("carms-s", samples=4)
    draw = estimator.sample(torch.zeros(5, 3, 2))
    for method in (estimator.surrogate, estimator.contributions):
        with pytest.raises(ValueError, match=r"terms must be \[K, D\]"):
            method(draw, torch.zeros(4, 5, 3), torch.eye(2))
        with pytest.raises(ValueError, match=r"= \[4, 5, 3\], got shape \[4, 5\]"):
            method(draw, torch.zeros(4, 5), torch.eye(3))


def test_bad_terms_are_refused_before_f_is_evaluated():
    def never(z):
        raise AssertionError("f was evaluated")

    logits = logits_of(5, 3, 2)
    for name, terms in (
        ("carms-s", torch.eye(2)),
        ("carms-t", torch.eye(3)),
        ("reinmax", torch.eye(3)),
    ):
        with pytest.raises(ValueError, match="terms"):
            expectation(never, logits, name, samples=4, terms=terms)
