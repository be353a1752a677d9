"""Blocks of runs that may be compared, and the words that tell them apart."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from carms.lab.report.paper import cells
from carms.lab.runs.gather import RecordedRun
from carms.lab.runs.settings import LOGGING, Settings

__all__ = [
    "DEFAULTS",
    "Block",
    "changed_settings",
    "headline",
    "make_blocks",
    "variant",
]

DEFAULTS = {field.name: field.default for field in fields(Settings)}
TITLE = ("task", "dataset", "network", "categories")
VARIANT = ("estimator", "options", "samples")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """Runs that differ only in estimator and seed, in groups that differ only in the seed.

    Settings that have no effect on a result may differ everywhere.
    """

    groups: Sequence[Sequence[RecordedRun]]

    @property
    def settings(self) -> Settings:
        """Settings of the first run."""
        return self.groups[0][0].settings

    @property
    def runs(self) -> list[RecordedRun]:
        """Runs of all groups."""
        return [run for group in self.groups for run in group]


def make_blocks(runs: Iterable[RecordedRun], directories: Sequence[Path] = ()) -> list[Block]:
    """Sort runs into blocks, with those of the same task, data set and network side by side.

    Groups of a block are in the order of the directories in which their runs lie, then in that of
    the paper's tables.
    """
    found: dict[Key, dict[Key, list[RecordedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: _order(run, directories)):
        shared = [name for name in DEFAULTS if name not in (*VARIANT, *LOGGING, "seed")]
        outer = tuple(getattr(run.settings, name) for name in shared)
        inner = tuple(getattr(run.settings, name) for name in VARIANT)
        found[outer][inner].append(run)
    return [Block(list(groups.values())) for groups in found.values()]


def changed_settings(settings: Settings, names: Iterable[str]) -> str:
    """The settings that do not have their default values, in words."""
    values = {name: getattr(settings, name) for name in names}
    return ", ".join(
        _setting_in_words(name, value) for name, value in values.items() if value != DEFAULTS[name]
    )


def headline(block: Block) -> tuple[str, str]:
    """Title of a block, and the settings that do not have their default values, in words."""
    settings = block.settings
    title = f"{settings.task}, {settings.dataset}, {settings.network}"
    others = [name for name in DEFAULTS if name not in (*TITLE, *VARIANT, *LOGGING, "seed")]
    return f"{title}, {settings.categories:,} categories", changed_settings(settings, others)


def variant(settings: Settings) -> str:
    """Name of the estimator, with its options and samples if they are not the default."""
    return ", ".join(
        filter(None, [settings.estimator, changed_settings(settings, ("options", "samples"))])
    )


def estimator_order(name: str) -> tuple[int, str]:
    """Key that sorts estimators as in the paper's tables, and others by name after them."""
    known = list(dict.fromkeys(key[-1] for key in cells()))
    return known.index(name) if name in known else len(known), name


def _order(run: RecordedRun, directories: Sequence[Path]) -> Key:
    settings = run.settings
    first = (settings.task != "vae", settings.dataset, settings.network, settings.categories)
    others = [name for name in DEFAULTS if name not in ("task", *VARIANT, *LOGGING, "seed")]
    values = [getattr(settings, name) for name in others]
    # None does not compare with numbers.
    rest = [(value is not None, 0 if value is None else value) for value in values]
    given = [run.path.is_relative_to(directory) for directory in directories]
    place = given.index(True) if any(given) else len(given)
    estimator = estimator_order(settings.estimator)
    return *first, rest, place, estimator, variant(settings), settings.seed


def _setting_in_words(name: str, value: Any) -> str:
    spoken = name.replace("_", " ")
    if name == "options":
        return " ".join(value)
    if isinstance(value, bool):
        return spoken if value else f"not {spoken}"
    counts = isinstance(value, int) and name != "seed"
    return f"{spoken} {value:,}" if counts else f"{spoken} {value}"
