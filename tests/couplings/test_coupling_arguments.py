"""What couplings refuse."""

import pytest
import torch

from carms.copulas import Circular, Dirichlet
from carms.couplings import BiasedGumbelMax, GumbelMax, InverseCDF


@pytest.mark.parametrize(
    ("kind", "probs", "message"),
    [
        (TypeError, torch.ones(3, dtype=torch.int64), r"floating point, got torch\.int64"),
        (ValueError, torch.ones(2, 1), r"2 categories, got .*\[2, 1\]"),
        (ValueError, torch.tensor(1.0), r"2 categories, got .*\[\]"),
        (ValueError, torch.tensor([0.5, -0.1, 0.6]), "non-negative and finite, got negative"),
        (ValueError, torch.tensor([0.5, torch.nan, 0.5]), "non-negative and finite.* NaN"),
        (ValueError, torch.tensor([0.5, torch.inf, 0.5]), "non-negative and finite.* infinite"),
        (ValueError, torch.zeros(2, 3), "positive sum over the categories, got all zeros"),
    ],
    ids=["integer", "one category", "scalar", "negative", "nan", "inf", "zero"],
)
def test_bad_probabilities(kind, probs, message):
    coupling = InverseCDF(Circular(3))
    with pytest.raises(kind, match=message):
        coupling.pmf(probs)
    with pytest.raises(kind, match=message):
        coupling.sample(probs)
    with pytest.raises(kind, match=message):
        coupling.draw(probs)
    if probs.ndim:
        with pytest.raises(kind, match=message):
            coupling.pair_ratio(probs, torch.zeros(3, *probs.shape[:-1], dtype=torch.int64))


def test_one_order_is_that_from_the_largest_on():
    assert InverseCDF(Dirichlet(4), "one").orderings == "largest-first"


def test_a_coupling_needs_a_copula():
    for make in (InverseCDF, GumbelMax):
        with pytest.raises(TypeError, match=r"must be a Copula .*got 'circular'"):
            make("circular")


@pytest.mark.parametrize(
    "coupling",
    [
        InverseCDF(Dirichlet(3, reflected=True), "all", epsilon=0.5),
        GumbelMax(Dirichlet(3), epsilon=0.5),
        BiasedGumbelMax(Dirichlet(3), extra=5),
    ],
    ids=repr,
)
def test_the_text_of_a_coupling_makes_it_again(coupling):
    again = eval(repr(coupling))
    assert repr(again) == repr(coupling)
    assert vars(again.copula) == vars(coupling.copula)
    for option in ("orderings", "epsilon", "extra"):
        assert getattr(again, option, None) == getattr(coupling, option, None)
