"""Problems and names that the tests of all estimators share."""

from typing import NamedTuple

import torch
from helpers import BINARY_ONLY, RandomTable, dirichlet_probs, generator

import carms

REPLICATES = 200_000
NAMES = carms.available()
SAMPLING = [name for name in NAMES if name != "exact"]
UNBIASED = [name for name in SAMPLING if carms.make(name, samples=4).unbiased]
# Soft samples give a biased value.
TRUE_VALUE = [name for name in SAMPLING if not carms.estimators.find(name).soft]
BIASED = [name for name in SAMPLING if name not in UNBIASED]


class Setting(NamedTuple):
    concentration: float
    variables: int
    categories: int
    samples: int

    @property
    def probs(self):
        # A rarer category would hardly be drawn, and no test would see its gradient.
        shape = self.variables, self.categories
        return dirichlet_probs(self.concentration, *shape, seed=7, floor=0.01)

    @property
    def f(self):
        return RandomTable(self.variables, self.categories, seed=11)


def suits(name, categories):
    return categories == 2 or name not in BINARY_ONLY


def untaught(name, samples, **options):
    """The estimator as it is made, learned or not."""
    return carms.make(name, samples=samples, **options).eval()


def results(estimator, f, logits, seed=9, **options):
    value = estimator.expectation(f, logits, generator(seed), **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient
