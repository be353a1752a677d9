"""Find runs under directories, and read them without trusting them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from carms.lab.runs.metrics import Series, read_metrics
from carms.lab.runs.printable import printable
from carms.lab.runs.records import Evaluation, read_result, read_settings
from carms.lab.runs.settings import LOGGING, Settings
from carms.lab.runs.sums import NAME as SUMS
from carms.lab.runs.sums import Sums

__all__ = ["Gathered", "RecordedRun", "find_runs", "gather"]

# Subdirectories of a run, which hold no runs.
OWN = {"checkpoints", "tensorboard"}
_USUAL_LOGGING = {name: getattr(Settings, name) for name in LOGGING}
# Number of characters of a reason why something was left out.
REASON = 300


@dataclass(frozen=True)
class RecordedRun:
    """A run as its directory has it; ``result`` is None if the run is not finished."""

    path: Path
    settings: Settings
    step: int
    metrics: dict[str, Series]
    result: Evaluation | None

    @property
    def milliseconds(self) -> float | None:
        """Time of a step, the median of the logged ones."""
        return median(self.metrics["milliseconds"].values) if self.step else None


class Gathered(NamedTuple):
    """Runs in the order of their paths, and a line for everything that was left out."""

    runs: list[RecordedRun]
    problems: list[str]


def gather(directories: Sequence[Path]) -> Gathered:
    """All runs in and below the directories, each once."""
    if not directories:
        raise ValueError("no directory is given: give run directories, or directories of them")
    best: dict[Settings, RecordedRun] = {}
    paths, problems = find_runs(directories)
    for path in paths:
        run = _read(path, problems)
        if run is None:
            continue
        what = replace(run.settings, **_USUAL_LOGGING)
        other = best.get(what)
        if other is not None:
            run, worse = sorted((run, other), key=lambda one: (not one.result, -one.step))
            same = f"the same settings and seed as {run.path}, left out"
            problems.append(printable(f"{worse.path}: {same}"))
        best[what] = run
    runs = sorted(best.values(), key=lambda run: run.path)
    if not runs:
        given = ", ".join(map(str, directories))
        where = f"was found ({problems[0]})" if problems else f"in {given}"
        raise ValueError(f"no run {where}: give run directories, or directories of them")
    return Gathered(runs, problems)


def find_runs(directories: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Directories with a ``config.json`` in and below those given, and what was left out."""
    problems: list[str] = []

    def leave_out(error: OSError) -> None:
        problems.append(printable(f"{error.filename}: {error.strerror}"))

    found: dict[Path, Path] = {}
    links: list[Path] = []
    for top in directories:
        for here, below, names in os.walk(top, onerror=leave_out):
            below[:] = sorted(name for name in below if name not in OWN and name[0] != ".")
            links += [Path(here, name) for name in below if Path(here, name).is_symlink()]
            if "config.json" in names:
                found.setdefault(Path(here).resolve(), Path(here))
    for link in links:
        if os.path.exists(link / "config.json") and link.resolve() not in found:
            problems.append(printable(f"{link}: a link to a run, left out"))
    return list(found.values()), problems


def _read(path: Path, problems: list[str]) -> RecordedRun | None:
    def leave_out(name: str, what: str, reason: object) -> None:
        why = printable(str(reason), REASON)
        problems.append(f"{printable(str(path / name))}: {what} ({why}), left out")

    try:
        Sums(path)
    except (OSError, ValueError) as error:
        leave_out(SUMS, "no checksums", error)
        return None
    try:
        settings = read_settings(path)
    except (OSError, ValueError) as error:
        leave_out("config.json", "not the settings of a run", error)
        return None
    metrics, bad, reason = read_metrics(path, settings.steps)
    if bad:
        leave_out("metrics.jsonl", f"{bad:,} bad", reason)
    try:
        result = read_result(path, settings)
    except (OSError, ValueError) as error:
        result = None
        leave_out("result.json", "not a result", error)
    steps = metrics["milliseconds"].steps
    return RecordedRun(path, settings, steps[-1] if steps else 0, metrics, result)
