"""What does not fit into memory is refused before it is made."""

import math

import pytest
import torch
from helpers import curved, expectation

import carms
from carms.copulas import Circular
from carms.core.checks.tensors import _memory_of
from carms.couplings import InverseCDF


@pytest.mark.parametrize("name", [each for each in carms.available() if each != "exact"])
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
    assert _memory_of("another") == math.inf
