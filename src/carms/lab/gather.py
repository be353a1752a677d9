"""Find runs under directories, and read them without trusting them."""

import json
import math
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from carms.lab.settings import Settings

__all__ = ["PARTS", "Gathered", "Result", "Run", "Series", "gather"]

PARTS = ("train", "test")
METRICS = ("objective", "test_bound", "gradient_variance", "milliseconds")
# Directories of a run that have no runs inside.
OWN = {"checkpoints", "tensorboard"}
# Whatever a file that is damaged, or is not of a run, may lead to.
DAMAGE = (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError)


class Series(NamedTuple):
    """A metric as it was logged."""

    steps: "array[int]"
    values: "array[float]"


@dataclass(frozen=True)
class Result:
    """Of a finished run: log likelihoods by part of the data, and what it was made with."""

    likelihood: dict[str, float]
    seconds: float
    versions: dict[str, str]


@dataclass(frozen=True)
class Run:
    """A run as its directory has it; ``result`` is None as long as it is not finished."""

    path: Path
    settings: Settings
    step: int
    metrics: dict[str, Series]
    result: Result | None

    @property
    def milliseconds(self) -> float | None:
        """Of a step, the median of the logged ones."""
        return median(self.metrics["milliseconds"].values) if self.step else None


class Gathered(NamedTuple):
    """Runs in the order of their paths, and a line for everything that was left out."""

    runs: list[Run]
    problems: list[str]


def gather(directories: Sequence[Path]) -> Gathered:
    """All runs in and below the directories, each once."""
    problems: list[str] = []
    best: dict[Settings, Run] = {}
    for path in _candidates(directories, problems):
        run = _read(path, problems)
        if run is None:
            continue
        other = best.get(run.settings)
        if other is not None:
            run, worse = sorted((run, other), key=lambda one: (not one.result, -one.step))
            problems.append(f"{worse.path}: the same settings and seed as {run.path}, left out")
        best[run.settings] = run
    runs = sorted(best.values(), key=lambda run: run.path)
    if not runs:
        found = f" ({problems[0]})" if problems else ""
        given = ", ".join(map(str, directories)) or "nothing"
        raise ValueError(f"no run in {given}{found}: give run directories, or directories of them")
    return Gathered(runs, problems)


def _candidates(directories: Sequence[Path], problems: list[str]) -> list[Path]:
    """Directories with a ``config.json``."""
    found: dict[Path, Path] = {}
    for top in directories:
        for here, below, names in os.walk(top, onerror=lambda error: problems.append(str(error))):
            below[:] = sorted(name for name in below if name not in OWN and name[0] != ".")
            if "config.json" in names:
                found.setdefault(Path(here).resolve(), Path(here))
    return list(found.values())


def _read(path: Path, problems: list[str]) -> Run | None:
    try:
        settings = _settings(path / "config.json")
    except DAMAGE as error:
        problems.append(f"{path / 'config.json'}: not the settings of a run ({error}), left out")
        return None
    metrics = _metrics(path / "metrics.jsonl", problems)
    try:
        result = _result(path / "result.json", settings)
    except FileNotFoundError:
        result = None
    except DAMAGE as error:
        result = None
        problems.append(f"{path / 'result.json'}: not a result ({error}), left out")
    steps = metrics["milliseconds"].steps
    return Run(path, settings, steps[-1] if steps else 0, metrics, result)


def _settings(path: Path) -> Settings:
    config = json.loads(path.read_text("utf-8"))
    if not isinstance(config, dict):
        raise ValueError("it is no object")
    return Settings.from_json(config)


def _metrics(path: Path, problems: list[str]) -> dict[str, Series]:
    """Good lines only; the first bad one is named."""
    found = {name: Series(array("q"), array("d")) for name in METRICS}
    bad: list[str] = []
    last = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    step, values = _line(line, last)
                except DAMAGE as error:
                    bad.append(f"line {number}: {error}")
                    continue
                last = step
                for name, value in values.items():
                    found[name].steps.append(step)
                    found[name].values.append(value)
    except FileNotFoundError:
        pass
    except DAMAGE as error:
        bad.append(str(error))
    if bad:
        problems.append(f"{path}: {len(bad):,} bad, left out ({bad[0]})")
    return found


def _line(text: str, last: int) -> tuple[int, dict[str, float]]:
    row = json.loads(text)
    step = row["step"]
    if type(step) is not int or not last < step < 2**63:
        raise ValueError(f"step {step!r} after step {last}")
    values = {name: _finite(row, name) for name in METRICS if name in row}
    if "milliseconds" not in values:
        raise ValueError("it has no milliseconds")
    return step, values


def _result(path: Path, settings: Settings) -> Result:
    row = json.loads(path.read_text("utf-8"))
    if row["step"] != settings.steps:
        raise ValueError(f"step {row['step']!r} of {settings.steps}")
    likelihood = {part: _finite(row, f"{part}_log_likelihood") for part in PARTS}
    versions = {str(name): str(value) for name, value in dict(row["versions"]).items()}
    return Result(likelihood, _finite(row, "training_seconds"), versions)


def _finite(row: dict[str, Any], name: str) -> float:
    value = row[name]
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}")
    return float(value)
