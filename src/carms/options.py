"""Checks of the numbers that options are."""

import operator
from numbers import Real
from typing import Any

__all__ = ["real_number", "whole_number"]


def whole_number(name: str, value: Any) -> int:
    """The value as an integer, if it is one of any library's.

    Examples:
        >>> whole_number("samples", 2.5)
        Traceback (most recent call last):
        TypeError: samples must be a whole number, got 2.5
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a whole number, got {value!r}")


def real_number(name: str, value: Any) -> float:
    """The value as a float, if it is a number; NaN is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if value != value:
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)
