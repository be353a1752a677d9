"""How far runs are, read from their directories."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from carms.lab.runs.metrics import last_line
from carms.lab.runs.records import read_result
from carms.lab.runs.settings import Settings

__all__ = ["Reached", "reached"]


@dataclass(frozen=True)
class Reached:
    """How far a run is.

    Attributes:
        state: finished if the run has a good result, begun if it has a directory.
        line: the last line of its metrics; empty before the first.
    """

    state: Literal["waiting", "begun", "finished"]
    line: dict[str, Any]

    @property
    def step(self) -> int:
        """The step of that line."""
        return int(self.line.get("step", 0))


def reached(path: Path, settings: Settings) -> Reached:
    """How far a run is now. Damaged files count as missing here: training names them."""
    if not os.path.exists(path / "config.json"):
        return Reached("waiting", {})
    try:
        finished = read_result(path, settings) is not None
    except (OSError, ValueError):
        finished = False
    return Reached("finished" if finished else "begun", last_line(path, settings.steps))
