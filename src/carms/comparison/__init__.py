"""Bias, variance and cost of estimators on a problem of the user's."""

from carms.comparison.measure import compare
from carms.comparison.table import Comparison, Measurement

__all__ = ["Comparison", "Measurement", "compare"]
