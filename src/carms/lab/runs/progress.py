"""Where runs stand, read off their directories."""

import os
from dataclasses import dataclass
from typing import Any, Literal

from carms.lab.runs.records import last_line, read_result
from carms.lab.sweep.executors import Job

__all__ = ["Standing", "standing"]


@dataclass(frozen=True)
class Standing:
    """Where one run stands.

    Attributes:
        state: finished if it has a good result, begun if it has a directory.
        line: the last of its metrics; empty before the first.
    """

    state: Literal["waiting", "begun", "finished"]
    line: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.line.get("step", 0))


def standing(run: Job) -> Standing:
    """Where a run stands now; what is damaged counts as not there, and is named by the run."""
    if not os.path.exists(run.path / "config.json"):
        return Standing("waiting", {})
    try:
        finished = read_result(run.path, run.settings) is not None
    except (OSError, ValueError):
        finished = False
    line = last_line(run.path, run.settings.steps)
    return Standing("finished" if finished else "begun", line)
