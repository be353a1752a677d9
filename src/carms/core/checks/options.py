"""Checks of options: numbers, names and flags."""

import math
import operator
from collections.abc import Callable, Collection
from difflib import get_close_matches
from inspect import signature
from numbers import Real
from typing import Any

from carms.core.memo import constant

__all__ = [
    "MOST_UNITS",
    "check_choice",
    "check_flag",
    "check_known",
    "enough_samples",
    "positive_number",
    "probability",
    "real_number",
    "unknown_name",
    "whole_number",
]

# The most units of a hidden layer.
MOST_UNITS = 65_536

# Larger counts fit no memory.
_MOST = 2**31 - 1
# Squares of larger numbers are infinite in single precision, and those of smaller ones zero.
_LARGEST, _SMALLEST = 1e18, 1e-18


def check_known(name: str, maker: Callable[..., Any], options: Collection[str]) -> None:
    """Raise if a class or function does not take one of the options."""
    known = _options_of(maker)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"{name} has no option {', '.join(unknown)}; its options are {', '.join(known)}"
        )


@constant
def _options_of(maker: Callable[..., Any]) -> tuple[str, ...]:
    # Inspected once: it takes a tenth of a call by name.
    return tuple(signature(maker).parameters)


def unknown_name(kind: str, name: str, known: Collection[str]) -> ValueError:
    """The error for a name that is none of those that are known.

    Examples:
        >>> unknown_name("estimator", "lorf", ["carms-s", "loorf"])
        ValueError("unknown estimator 'lorf'; did you mean loorf?")
    """
    low = name.lower()
    near = [each for each in known if low and low in each] or get_close_matches(low, known, n=3)
    hint = f"did you mean {' or '.join(near[:3])}?" if near else f"there are {', '.join(known)}"
    return ValueError(f"unknown {kind} {name!r}; {hint}")


def whole_number(name: str, value: Any, least: int | None = None, most: int = _MOST) -> int:
    """The value as an int, if it is a whole number of any library.

    Examples:
        >>> whole_number("samples", 2.5)
        Traceback (most recent call last):
        TypeError: samples must be a whole number, got 2.5
    """
    number = None
    try:
        if not isinstance(value, bool):
            number = operator.index(value)
    except (TypeError, RuntimeError):  # RuntimeError: a tensor of more than one number, or none
        pass
    if number is None:
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least:,}, got {number:,}")
    if number > most:
        raise ValueError(f"{name} must be at most {most:,}, got {number:,}")
    return number


def enough_samples(whose: str, samples: Any, least: int, hint: str = "") -> int:
    """The number of samples as an int, if it is not less than the least.

    Examples:
        >>> enough_samples("loorf", 1, least=2)
        Traceback (most recent call last):
        ValueError: loorf needs at least 2 samples, got samples=1
    """
    number = whole_number("samples", samples)
    if number < least:
        noun = "sample" if least == 1 else "samples"
        raise ValueError(f"{whose} needs at least {least} {noun}, got samples={number}{hint}")
    return number


def real_number(name: str, value: Any) -> float:
    """The value as a float, if it is a number that single precision can compute with."""
    number = _number(name, value)
    if abs(number) > _LARGEST:
        raise ValueError(f"{name} must be finite, got {value!r}; at most {_LARGEST:.0e} in size")
    return number


def positive_number(name: str, value: Any) -> float:
    """The value as a float, if it is a positive one that single precision can compute with."""
    number = _number(name, value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(
            f"{name} must be positive and finite, got {value!r}; "
            f"between {_SMALLEST:.0e} and {_LARGEST:.0e}"
        )
    return number


def probability(name: str, value: Any) -> float:
    """The value as a float, if it is between 0 and 1."""
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} is a probability, got {value}")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if value != value:
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_choice(name: str, value: Any, among: Collection[str]) -> None:
    """Raise unless the value is one of the names."""
    if not isinstance(value, str) or value not in among:
        *others, last = map(repr, among)
        raise ValueError(f"{name} is {', '.join(others)} or {last}, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
