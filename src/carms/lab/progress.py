"""Where runs stand, read off their directories."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from carms.lab.executors import Job

__all__ = ["Standing", "last_line", "standing"]

# Bytes at the end of a file of metrics in which its last line is.
TAIL = 4096


@dataclass(frozen=True)
class Standing:
    """Of one run.

    Attributes:
        line: the last of its metrics; empty before the first.
    """

    state: Literal["waiting", "begun", "finished"]
    line: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.line.get("step", 0))


def standing(run: Job) -> Standing:
    """Where a run stands now."""
    if not (run.path / "config.json").exists():
        return Standing("waiting", {})
    state: Literal["begun", "finished"] = (
        "finished" if (run.path / "result.json").exists() else "begun"
    )
    return Standing(state, last_line(run.path / "metrics.jsonl"))


def last_line(path: Path) -> dict[str, Any]:
    """Of a file that another process may be writing to: the last that is whole."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found
