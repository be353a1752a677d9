"""Unbiased, low-variance gradients through categorical choices."""

from carms import copulas, couplings, estimators, sequences, subsets
from carms.bounds import importance_bound
from carms.compare import compare
from carms.estimators import available, make
from carms.expectation import expectation
from carms.memory import keep_freed_memory as _keep_freed_memory
from carms.paths import Paths

__version__ = "0.1.0"

__all__ = [
    "Paths",
    "available",
    "compare",
    "copulas",
    "couplings",
    "estimators",
    "expectation",
    "importance_bound",
    "make",
    "sequences",
    "subsets",
]

_keep_freed_memory()
