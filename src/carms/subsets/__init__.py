"""Subsets and rankings: unbiased gradients through the choice of k of n items."""

from carms.subsets.base import Draw, SubsetEstimator
from carms.subsets.expectations import expectation, sample, surrogate
from carms.subsets.registry import available, make

__all__ = [
    "Draw",
    "SubsetEstimator",
    "available",
    "expectation",
    "make",
    "sample",
    "surrogate",
]
