"""Kinds of couplings, and what tests ask of their tables."""

import itertools

import pytest
import torch

from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified
from carms.copulas.names import COPULAS
from carms.couplings import GumbelMax, InverseCDF

# Every kind of coupling whose draws reach every pair of four categories, for four samples or more.
REACHING = {
    **{f"{name}, auto": lambda n, make=make: InverseCDF(make(n)) for name, make in COPULAS.items()},
    **{
        f"{name}, all": lambda n, make=make: InverseCDF(make(n), "all")
        for name, make in COPULAS.items()
    },
    "dirichlet, one": lambda n: InverseCDF(Dirichlet(n), "largest-first"),
    "dirichlet-reflected, one": lambda n: InverseCDF(Dirichlet(n, reflected=True), "largest-first"),
    "circular, one": lambda n: InverseCDF(Circular(n), "largest-first"),
    "gaussian, one": lambda n: InverseCDF(Gaussian(n), "largest-first"),
    "circular, 1": lambda n: InverseCDF(Circular(n), 1),
    "circular, 5": lambda n: InverseCDF(Circular(n), 5),
    "gaussian, 3": lambda n: InverseCDF(Gaussian(n), 3),
    "dirichlet, epsilon": lambda n: InverseCDF(Dirichlet(n), epsilon=0.3),
    "dirichlet, given, epsilon": lambda n: InverseCDF(Dirichlet(n), "given", epsilon=0.3),
    "stratified, one, epsilon": lambda n: InverseCDF(Stratified(n), "largest-first", epsilon=0.3),
    "dirichlet, 3, epsilon": lambda n: InverseCDF(Dirichlet(n), 3, epsilon=0.3),
    "circular, epsilon": lambda n: InverseCDF(Circular(n), epsilon=0.3),
    "gumbel": lambda n: GumbelMax(Dirichlet(n)),
    "gumbel, epsilon": lambda n: GumbelMax(Dirichlet(n), epsilon=0.3),
    "gumbel, independent": lambda n: GumbelMax(Independent(n)),
}


# Some pairs are out of reach for these; tables and samples must agree all the same.
HIDING = {
    "dirichlet, given": lambda n: InverseCDF(Dirichlet(n), "given"),
    "dirichlet-reflected, given": lambda n: InverseCDF(Dirichlet(n, reflected=True), "given"),
    "dirichlet, 2": lambda n: InverseCDF(Dirichlet(n), 2),
    "stratified, given": lambda n: InverseCDF(Stratified(n), "given"),
    "stratified, one": lambda n: InverseCDF(Stratified(n), "largest-first"),
    "stratified, 3": lambda n: InverseCDF(Stratified(n), 3),
}


PROBS = {
    "ordinary": [0.21, 0.34, 0.08, 0.37],
    "uneven": [0.004, 0.9, 0.066, 0.03],
    "with a zero": [0.3, 0.0, 0.5, 0.2],
    "uniform": [0.25] * 4,
}


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def is_gumbel(coupling):
    return isinstance(coupling, GumbelMax)


def off_diagonal(table):
    return table[..., ~torch.eye(table.shape[-1], dtype=torch.bool)]


def ratio_table(coupling, probs):
    """``p_i p_j / P(i, j)`` of every pair ``i != j`` by ``pair_ratio``, 0 elsewhere."""
    categories = len(probs)
    pairs = [pair for pair in itertools.permutations(range(categories), 2) if probs[[*pair]].all()]
    first, second = torch.tensor(pairs).T
    indices = torch.stack([first] + [second] * (coupling.samples - 1))
    ratio = coupling.pair_ratio(probs.expand(len(pairs), categories), indices)
    table = torch.zeros(categories, categories, dtype=torch.float64)
    table[first, second] = ratio[0].double()
    return table


def peaked(categories, top, height):
    """Single-precision probabilities of which one is all but certain."""
    logits = torch.linspace(0, 1, categories)
    logits[top] = height
    return logits.softmax(-1)


each_reaching = pytest.mark.parametrize("reaching", REACHING.values(), ids=list(REACHING))
each_probs = pytest.mark.parametrize(
    "probs", [tensor(values) for values in PROBS.values()], ids=list(PROBS)
)
