"""Estimators of subsets by name."""

from typing import Any

from carms.core.checks.options import check_known, unknown_name
from carms.subsets.base import SubsetEstimator
from carms.subsets.carms import Carms
from carms.subsets.carms_t import CarmsT
from carms.subsets.exact import Exact
from carms.subsets.loorf import Loorf
from carms.subsets.relaxed import Relaxed, StraightThrough
from carms.subsets.unord import Unord

__all__ = ["available", "make"]

_CLASSES = (Carms, CarmsT, Exact, Loorf, Relaxed, StraightThrough, Unord)
_REGISTRY: dict[str, type[SubsetEstimator]] = {each.name: each for each in _CLASSES}


def available() -> tuple[str, ...]:
    """The names that ``make`` and ``expectation`` know, sorted."""
    return tuple(sorted(_REGISTRY))


def make(name: str, size: int, **options: Any) -> SubsetEstimator:
    """The estimator behind a name.

    Args:
        name: one of ``available``.
        size: number of items to choose, k.
        options: ``samples``, ``ordered`` and whatever else the estimator takes.

    Examples:
        >>> make("loorf", size=3, samples=4)
        loorf(size=3, samples=4)
    """
    if isinstance(name, SubsetEstimator):
        raise TypeError(f"{name} is made already; call its own expectation, sample and surrogate")
    if not isinstance(name, str):
        raise TypeError(f"an estimator of subsets is a name, got {type(name).__name__}")
    if name not in _REGISTRY:
        raise unknown_name("estimator of subsets", name, available())
    check_known(name, _REGISTRY[name], options)
    return _REGISTRY[name](size, **options)
