"""Read the files of a run, as its writer wants them and as checked records for everybody else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carms.lab.runs.metrics import METRICS_LIMIT, number
from carms.lab.runs.reading import (
    OBJECT_LIMIT,
    parse_object,
    read_bounded,
    read_if_there,
    read_object,
)
from carms.lab.runs.settings import Settings
from carms.lab.runs.sums import Sums, sha256

__all__ = [
    "PARTS",
    "Evaluation",
    "read_config",
    "read_finished",
    "read_lines",
    "read_raw_metrics",
    "read_raw_result",
    "read_result",
    "read_settings",
]

PARTS = ("train", "test")


@dataclass(frozen=True)
class Evaluation:
    """Log likelihoods of a finished run by part of the data, and what it was made with."""

    likelihood: dict[str, float]
    seconds: float
    versions: dict[str, str]


def read_settings(directory: Path) -> Settings:
    """Read ``config.json``."""
    return Settings.from_json(_checked_object(directory, "config.json"))


def read_result(directory: Path, settings: Settings) -> Evaluation | None:
    """Read ``result.json``; None if there is none, because the run is not finished."""
    try:
        row = _checked_object(directory, "result.json")
    except FileNotFoundError:
        return None
    return _result(row, settings)


def _result(row: dict[str, Any], settings: Settings) -> Evaluation:
    if row.get("step") != settings.steps:
        raise ValueError(f"step {row.get('step')!r} of {settings.steps}")
    likelihood = {part: number(row, f"{part}_log_likelihood") for part in PARTS}
    versions = row.get("versions")
    if not isinstance(versions, dict):
        raise ValueError(f"versions is {versions!r}")
    named = {name: str(value) for name, value in versions.items()}
    return Evaluation(likelihood, number(row, "training_seconds"), named)


def _checked_object(directory: Path, name: str) -> dict[str, Any]:
    data = read_bounded(directory / name, OBJECT_LIMIT)
    Sums(directory).check(name, sha256(data))
    return parse_object(data)


def read_config(directory: Path) -> dict[str, Any] | None:
    """The settings in ``config.json`` as they are; None if there is no such file."""
    return read_object(directory / "config.json")


def read_raw_result(directory: Path) -> dict[str, Any] | None:
    """What ``result.json`` has, of any kind of run; None if there is no such file."""
    path = directory / "result.json"
    data = read_if_there(path, OBJECT_LIMIT)
    if data is None:
        return None
    sums = Sums(directory)
    try:
        sums.check(path.name, sha256(data))
        return parse_object(data)
    except ValueError as error:
        raise _damaged(path, error) from error


def read_finished(directory: Path, settings: Settings) -> dict[str, Any] | None:
    """What ``result.json`` of a training run has; None if there is no such file, and an error that
    names it if it is not a result of these settings.
    """
    row = read_raw_result(directory)
    if row is not None:
        try:
            _result(row, settings)
        except ValueError as error:
            raise _damaged(directory / "result.json", error) from error
    return row


def _damaged(path: Path, error: ValueError) -> ValueError:
    return ValueError(f"{path} is damaged: {error}; remove it, and run the same command again")


def read_raw_metrics(directory: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, of any kind of run."""
    lines, sums = read_lines(directory), Sums(directory)
    try:
        sums.check("metrics.jsonl", sha256(lines))
        return [parse_object(line) for line in lines.splitlines()]
    except ValueError as error:
        raise ValueError(f"{directory / 'metrics.jsonl'} is damaged: {error}") from error


def read_lines(directory: Path) -> bytes:
    """The bytes of ``metrics.jsonl``; none if there is no such file."""
    return read_if_there(directory / "metrics.jsonl", METRICS_LIMIT) or b""
