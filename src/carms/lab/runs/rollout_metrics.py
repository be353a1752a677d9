"""Read the metrics of a run that learned by policy gradient."""

from pathlib import Path
from typing import Any

from carms.lab.runs.metrics import number
from carms.lab.runs.records import read_raw_metrics
from carms.lab.runs.rollout_settings import METHODS, RolloutSettings

__all__ = ["read_rollout_metrics"]


def read_rollout_metrics(directory: Path, settings: RolloutSettings) -> list[dict[str, Any]]:
    """Read ``metrics.jsonl`` of a finished run; an error that names it if a number is missing."""
    lines = read_raw_metrics(directory)
    expected = [*range(0, settings.steps, settings.log_every), settings.steps]
    try:
        if [line.get("step") for line in lines] != expected:
            raise ValueError(f"it does not have the {len(expected):,} lines of the run")
        for line in lines:
            for name in _names(line):
                number(line, name)
    except ValueError as error:
        raise ValueError(
            f"{directory / 'metrics.jsonl'} is damaged: {error}; remove result.json beside it to "
            "train the run again"
        ) from error
    return lines


def _names(line: dict[str, Any]) -> list[str]:
    """Names of the numbers that a line must have."""
    variances = [f"variance_{method}" for method in METHODS]
    measured = variances if any(name in line for name in variances) else []
    # The first line is from before the first step, which took no time.
    return ["reward", "solved", *measured, *(["milliseconds"] if line["step"] else [])]
