"""Which runs may be compared, and in which words they differ."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from carms.lab.report.paper import cells
from carms.lab.runs.gather import Run
from carms.lab.runs.settings import Settings

__all__ = ["DEFAULTS", "Block", "estimator_order", "headline", "make_blocks", "told", "variant"]

DEFAULTS = {field.name: field.default for field in fields(Settings)}
TITLE = ("task", "dataset", "network", "categories")
VARIANT = ("estimator", "options", "samples")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """Runs that differ in nothing but the estimator and the seed; in a group, only in the seed."""

    groups: Sequence[Sequence[Run]]

    @property
    def settings(self) -> Settings:
        """Of one of them."""
        return self.groups[0][0].settings

    @property
    def runs(self) -> list[Run]:
        """Of all groups."""
        return [run for group in self.groups for run in group]


def make_blocks(runs: Iterable[Run]) -> list[Block]:
    """All runs, those of the same task, data set and network one after the other."""
    found: dict[Key, dict[Key, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: _order(run.settings)):
        shared = [name for name in DEFAULTS if name not in (*VARIANT, "seed")]
        outer = tuple(getattr(run.settings, name) for name in shared)
        inner = tuple(getattr(run.settings, name) for name in VARIANT)
        found[outer][inner].append(run)
    return [Block(list(groups.values())) for groups in found.values()]


def told(settings: Settings, names: Iterable[str]) -> str:
    """Those of the settings that are not the usual ones, in words."""
    words = []
    for name in names:
        value = getattr(settings, name)
        if value == DEFAULTS[name]:
            continue
        said = f"{value:,}" if isinstance(value, int) and name != "seed" else str(value)
        words.append(" ".join(value) if name == "options" else f"{name.replace('_', ' ')} {said}")
    return ", ".join(words)


def headline(block: Block) -> tuple[str, str]:
    """What a block's runs are of, and those of their settings that are not the usual ones."""
    settings = block.settings
    title = f"{settings.task}, {settings.dataset}, {settings.network}"
    others = [name for name in DEFAULTS if name not in (*TITLE, *VARIANT, "seed")]
    return f"{title}, {settings.categories:,} categories", told(settings, others)


def variant(settings: Settings) -> str:
    """The estimator, with what is special about it."""
    return ", ".join(filter(None, [settings.estimator, told(settings, ("options", "samples"))]))


def estimator_order(name: str) -> tuple[int, str]:
    """As in the paper; those that it does not have come after."""
    known = list(dict.fromkeys(key[-1] for key in cells()))
    return known.index(name) if name in known else len(known), name


def _order(settings: Settings) -> Key:
    first = (settings.task != "vae", settings.dataset, settings.network, settings.categories)
    others = [name for name in DEFAULTS if name not in ("task", *VARIANT, "seed")]
    values = [getattr(settings, name) for name in others]
    # None does not compare with numbers.
    rest = [(value is not None, 0 if value is None else value) for value in values]
    return *first, rest, estimator_order(settings.estimator), variant(settings), settings.seed
