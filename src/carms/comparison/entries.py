"""Entries of a comparison: the estimators that a user wants to compare, and their labels."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from reprlib import repr as brief
from typing import Any, NamedTuple

from carms.copulas import Copula
from carms.core.shown import described, shown_options
from carms.couplings import Coupling
from carms.estimators import Estimator, Name, make

__all__ = ["Contestant", "Entries", "Entry", "contestants"]

Entry = Name | str | Estimator | tuple[Name | str, Mapping[str, Any]]
Entries = Entry | Sequence[Entry] | Mapping[str, Entry]


class Contestant(NamedTuple):
    """A label, an estimator to measure, and whether it is a copy of an object from the user."""

    label: str
    estimator: Estimator
    given: bool


def contestants(entries: Entries, samples: int | None) -> list[Contestant]:
    """Make the estimators of all entries, those given by name with a number of samples or, if it is
    None, with the default.
    """
    listed = _listed(entries)
    if not listed:
        raise ValueError(f"estimators must be one or more names or estimators, got {entries!r}")
    made = [_made(entry, samples) for entry in listed]
    labels = [*map(str, entries)] if isinstance(entries, Mapping) else _labels(listed, made)
    given = (isinstance(entry, Estimator) for entry in listed)
    return [Contestant(*each) for each in zip(labels, made, given, strict=True)]


def _listed(entries: Any) -> list[Any]:
    if isinstance(entries, Mapping):
        return [*entries.values()]
    if isinstance(entries, str | Estimator) or _has_options(entries):
        return [entries]
    return [*entries] if isinstance(entries, Iterable) else [entries]


def _has_options(entry: object) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], Mapping)


def _made(entry: Any, samples: int | None) -> Estimator:
    if isinstance(entry, Estimator):
        # Copied, so that the object of the user does not remember these calls.
        return deepcopy(entry)
    name, options = entry if _has_options(entry) else (entry, {})
    if not isinstance(name, str):
        raise TypeError(f"an entry is a name, (name, options) or an estimator, got {brief(entry)}")
    # A copula or a coupling has a number of samples of its own.
    settled = any(isinstance(value, Copula | Coupling) for value in options.values())
    usual = {} if settled or samples is None else {"samples": samples}
    return make(name, **{**usual, **options})


def _labels(entries: list[Any], made: list[Estimator]) -> list[str]:
    """Distinct names with options; samples have a column of their own and are left out."""
    short = [_label(entry, each) for entry, each in zip(entries, made, strict=True)]
    labels = [
        label if short.count(label) == 1 or isinstance(entry, str) else repr(each)
        for label, entry, each in zip(short, entries, made, strict=True)
    ]
    return [
        f"{label} ({labels[: k + 1].count(label)})" if labels.count(label) > 1 else label
        for k, label in enumerate(labels)
    ]


def _label(entry: Any, made: Estimator) -> str:
    """The name of an entry, with its options as they were given."""
    if isinstance(entry, str):
        return entry
    name, options = (
        entry if _has_options(entry) else (made.name or type(made).__name__, shown_options(made))
    )
    return described(name, {key: value for key, value in options.items() if key != "samples"})
