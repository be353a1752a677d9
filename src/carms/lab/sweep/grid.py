"""Grids of runs: every combination of listed settings."""

import itertools
import math
import tomllib
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from carms.estimators import find
from carms.lab.data.datasets import source_of
from carms.lab.runs.settings import Settings

__all__ = ["NAMED", "expand", "read_grid", "run_name"]

_PAPER: dict[str, Any] = {
    "categories": [3, 5, 10],
    "estimator": ["loorf", "unord", "arsm", "carms-i", "carms-g"],
    "seed": [0, 1, 2, 3, 4],
}
_MNISTS = ["dynamic-mnist", "fashion-mnist"]
_ROWS: dict[str, Any] = {"dataset": [*_MNISTS, "omniglot"], "network": ["linear", "nonlinear"]}
NAMED: dict[str, list[dict[str, Any]]] = {
    "paper-vae": [{**_ROWS, **_PAPER}],
    "paper-complete": [
        {"task": "complete", "dataset": _MNISTS, **_PAPER},
        # The upper half of an image that is mirrored at its diagonal is another one.
        {"task": "complete", "dataset": "omniglot", "upright": False, **_PAPER},
    ],
    "short-vae": [
        {
            **_ROWS,
            "categories": _PAPER["categories"],
            "estimator": ["loorf", "carms-i", "carms-s", "carms-t"],
            "steps": 100_000,
        }
    ],
}
"""The grids of the paper's tables, and its first table again at a tenth of the steps."""

# The largest number of runs of a grid, and of bytes of its file: parsing a key of n parts takes
# memory of n^2.
RUNS, BYTES = 10_000, 1 << 14

# Settings that are part of the name of every run; others only if they are not the default.
_NAMING = ("task", "dataset", "network", "categories", "estimator")


def read_grid(source: str) -> list[Settings]:
    """The runs of a grid by name, or of a TOML file.

    The file gives settings by name; where it gives a list, every element is tried with every other:

        dataset = "digits"
        categories = [3, 5]
        estimator = ["loorf", "carms-s"]
        seed = [0, 1, 2]
    """
    if source in NAMED:
        return [run for grid in NAMED[source] for run in expand(grid)]
    path = Path(source)
    if not path.is_file():
        names = (*NAMED, "contest")
        near = get_close_matches(source, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"a grid is {', '.join(names)}, contest/TASK or a TOML file; there is no {source}{hint}"
        )
    with path.open("rb") as file:
        text = file.read(BYTES + 1)
    if len(text) > BYTES:
        raise ValueError(f"{source} is too large for a grid: it has more than {BYTES:,} bytes")
    try:
        return expand(_parsed(text))
    except RecursionError as error:
        raise ValueError(f"{source}: its values are nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:
        raise ValueError(f"it is not valid TOML: {error}") from error


def expand(grid: dict[str, Any]) -> list[Settings]:
    """The settings of every combination, all of them checked.

    Examples:
        >>> [run.seed for run in expand({"estimator": "loorf", "seed": [3, 4]})]
        [3, 4]
    """
    known = {field.name for field in fields(Settings)}
    unknown = sorted(set(grid) - known)
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise ValueError(f"there is no setting {', '.join(unknown)}; {hint}")
    axes = [value if isinstance(value, list) else [value] for value in _axes(grid).values()]
    count = math.prod(map(len, axes))
    if count > RUNS:
        raise ValueError(f"the grid has {count:,} runs, more than {RUNS:,}: divide it")
    runs = [
        Settings(**dict(zip(grid, combination, strict=True)))
        for combination in itertools.product(*axes)
    ]
    for run in runs:
        run.make_estimator()
        source_of(run.dataset)
    if not runs:
        raise ValueError("the grid has no runs: a list in it is empty")
    # Numbers may be written in two ways, and some estimators have two names.
    if len({replace(run, estimator=find(run.estimator).name) for run in runs}) < len(runs):
        raise ValueError("the grid has the same run twice")
    return runs


def _axes(grid: dict[str, Any]) -> dict[str, Any]:
    """The grid with its options as a list of tuples.

    Options are a list by themselves: a list of them is one value, a list of lists is several.
    """
    options = grid.get("options")
    if not isinstance(options, list):
        return grid
    several = options if options and isinstance(options[0], list) else [options]
    return {**grid, "options": [tuple(one) for one in several]}


def run_name(settings: Settings) -> str:
    """A readable name for the directory of a run, different for different settings.

    Examples:
        >>> run_name(Settings(network="linear", categories=3, steps=100, seed=2))
        'vae-dynamic-mnist-linear-3-carms-s-seed=2-steps=100'
    """
    parts = [str(getattr(settings, name)) for name in _NAMING]
    parts.append(f"seed={settings.seed}")
    defaults = Settings()
    others = [field.name for field in fields(Settings) if field.name not in (*_NAMING, "seed")]
    for name in others:
        value = getattr(settings, name)
        if value != getattr(defaults, name):
            parts.append(f"{name}={_plain(value)}")
    return "-".join(parts)


def _plain(value: Any) -> str:
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    return text.replace("/", "_")
