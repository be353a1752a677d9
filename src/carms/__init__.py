"""Unbiased, low-variance gradients through categorical choices."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carms import copulas, couplings, estimators, sequences, subsets
    from carms.bounds import importance_bound
    from carms.comparison import Comparison, compare
    from carms.estimators import Draw, Estimator, available, make
    from carms.expectations import expectation
    from carms.paths import Paths

__version__ = "0.2.0"

__all__ = [
    "Comparison",
    "Draw",
    "Estimator",
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

_HOMES = {
    "Comparison": "comparison",
    "Draw": "estimators",
    "Estimator": "estimators",
    "Paths": "paths",
    "available": "estimators",
    "compare": "comparison",
    "expectation": "expectations",
    "importance_bound": "bounds",
    "make": "estimators",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: `carms --help` has no need of torch."""
    if name not in __all__:
        raise AttributeError(f"module 'carms' has no attribute {name!r}")
    found = import_module(f"carms.{_HOMES.get(name, name)}")
    if name in _HOMES:
        found = getattr(found, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
