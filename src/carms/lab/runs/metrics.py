"""Read the metrics of a run, without trusting them."""

import os
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

from carms.lab.runs.reading import open_regular, parse_object
from carms.lab.runs.sums import Sums

__all__ = [
    "LARGEST",
    "METRICS_LIMIT",
    "Metrics",
    "Series",
    "last_line",
    "number",
    "read_metrics",
]

METRICS = ("objective", "test_bound", "gradient_variance", "milliseconds")
# Those that every line of training has.
REQUIRED = ("objective", "milliseconds")
# The largest file of metrics, and the longest line of it, in bytes.
METRICS_LIMIT, LINE_LIMIT = 1 << 30, 1 << 16
# Sums and squares of numbers up to this one are finite, and axes can show them.
LARGEST = 1e100
# The number of bad lines after which the rest is not read.
BAD_LIMIT = 1000


class Series(NamedTuple):
    """A metric as it was logged."""

    steps: "array[int]"
    values: "array[float]"


class Metrics(NamedTuple):
    """The good lines of ``metrics.jsonl``, the number of bad ones, and what is wrong first."""

    series: dict[str, Series]
    bad: int
    reason: str


def read_metrics(directory: Path, steps: int) -> Metrics:
    """Read ``metrics.jsonl`` of a run of that many steps; there need not be one."""
    nothing = _metrics((), steps)
    try:
        with open_regular(directory / "metrics.jsonl", METRICS_LIMIT) as file:
            Sums(directory).check("metrics.jsonl", file_digest(file, "sha256").hexdigest())
            file.seek(0)
            return _metrics(iter(partial(file.readline, LINE_LIMIT + 1), b""), steps)
    except FileNotFoundError:
        known = "metrics.jsonl" in Sums(directory)
        return nothing._replace(bad=1, reason="it is missing") if known else nothing
    except (OSError, ValueError) as error:
        return nothing._replace(bad=1, reason=str(error))


def _metrics(lines: Iterable[bytes], steps: int) -> Metrics:
    series = {name: Series(array("q"), array("d")) for name in METRICS}
    bad, reason, last = 0, "", 0
    for place, text in enumerate(lines, 1):
        try:
            line = _line(text, steps, REQUIRED)
            step = int(line.pop("step"))
            if step <= last:
                raise ValueError(f"step {step} after step {last}")
        except ValueError as error:
            bad += 1
            reason = reason or f"line {place}: {error}"
            if bad == BAD_LIMIT:
                return Metrics(series, bad, f"{reason}; nothing is read after line {place:,}")
            continue
        last = step
        for name, value in line.items():
            series[name].steps.append(step)
            series[name].values.append(value)
    return Metrics(series, bad, reason)


def last_line(directory: Path, steps: int, required: Sequence[str] = REQUIRED) -> dict[str, float]:
    """Read the last good line of metrics, which another process may be adding to; empty if there
    is none near the end.
    """
    try:
        with open_regular(directory / "metrics.jsonl", METRICS_LIMIT) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LINE_LIMIT))
            texts = file.read(LINE_LIMIT).split(b"\n")
    except (OSError, ValueError):
        return {}
    # What follows the last end of a line is not whole yet.
    for text in reversed(texts[:-1]):
        try:
            return _line(text, steps, required)
        except ValueError:
            continue
    return {}


def _line(text: bytes, steps: int, required: Sequence[str]) -> dict[str, float]:
    """The step and the known metrics of a line."""
    if len(text) > LINE_LIMIT:
        raise ValueError(f"it has more than {LINE_LIMIT:,} bytes")
    row = parse_object(text)
    step = row.get("step")
    if type(step) is not int or not 0 <= step <= steps:
        raise ValueError(f"step {step!r} of {steps}")
    present = [name for name in METRICS if row.get(name) is not None]
    names = dict.fromkeys((*present, *required))
    return {"step": step} | {name: number(row, name) for name in names}


def number(row: dict[str, Any], name: str) -> float:
    """A number of a JSON object; an error if it is none, or too large to compute with."""
    value: Any = row.get(name)
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ValueError(f"{name} is {value!r}" if name in row else f"it has no {name}")
    return float(value)
