"""Estimators by name."""

# Annotations stay text, so that `help` shows `Name` and not all names.
from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, TypeVar

from carms.core.checks.options import check_known, unknown_name, whole_number
from carms.estimators.base import Estimator
from carms.estimators.names import Name

__all__ = ["available", "find", "make", "register", "resolve"]

_CLASSES: dict[str, type[Estimator]] = {}
_ALIASES: dict[str, str] = {}

Kind = TypeVar("Kind", bound=type[Estimator])


def register(name: str, *aliases: str) -> Callable[[Kind], Kind]:
    """Register a class of estimators under a name and aliases.

    Examples:
        >>> from carms.estimators.loorf import Loorf
        >>> @register("my-own")
        ... class MyOwn(Loorf):
        ...     pass
        >>> make("my-own", samples=4)
        my-own(samples=4)
        >>> _ = _CLASSES.pop("my-own")
    """

    def named(kind: Kind) -> Kind:
        for each in (name, *aliases):
            if each in _CLASSES or each in _ALIASES:
                raise ValueError(f"there is an estimator {each!r} already")
        kind.name = name
        _CLASSES[name] = kind
        _ALIASES.update(dict.fromkeys(aliases, name))
        return kind

    return named


def available() -> tuple[str, ...]:
    """The names that ``make`` knows, sorted, without aliases such as ``rloo`` for ``loorf``."""
    return tuple(sorted(_CLASSES))


def find(name: Name | str) -> type[Estimator]:
    """The class behind a name, which holds the facts about its estimators.

    Examples:
        >>> find("gumbel-softmax").unbiased
        False
    """
    if not isinstance(name, str):
        number = isinstance(name, Number)
        got = f"{name!r}; did you mean samples={name!r}?" if number else type(name).__name__
        raise TypeError(f"an estimator is a name or an object from carms.make, got {got}")
    kind = _CLASSES.get(_ALIASES.get(name, name))
    if kind is None:
        raise _unknown(name)
    return kind


def make(name: Name | str, **options: Any) -> Estimator:
    """The estimator behind a name.

    Args:
        name: one of ``available``, or an alias: ``rloo`` or ``vargrad`` for ``loorf``, ``u2g`` for
            ``disarm``.
        options: ``samples``, 8 by default, and whatever else the estimator takes.

    Examples:
        >>> make("loorf", samples=4)
        loorf(samples=4)
    """
    kind = find(name)
    check_known(name, kind, options)
    if "samples" in options:
        options["samples"] = whole_number("samples", options["samples"])
    return kind(**options)


def resolve(estimator: str | Estimator, samples: int | None, options: dict[str, Any]) -> Estimator:
    """The estimator of one call: made of a name and options, or the object that the user made."""
    if samples is not None:
        options = {"samples": samples, **options}
    if isinstance(estimator, Estimator):
        if options:
            raise TypeError(f"{estimator} is made already; give {', '.join(options)} to carms.make")
        return estimator
    made = make(estimator, **options)
    if made.stateful:
        train = ", train its parameters()" if made.learned else ""
        raise ValueError(
            f"{made} learns from call to call: make it once with "
            f"carms.make({estimator!r}, ...){train} and pass the object"
        )
    return made.eval()  # what it learns would be lost after this call


def _unknown(name: str) -> ValueError:
    if name == "vimco":
        return ValueError(
            "vimco is for the importance-weighted bound, not for an expectation: use "
            "carms.importance_bound"
        )
    return unknown_name("estimator", name, sorted([*_CLASSES, *_ALIASES]))
