"""Where runs stand, read off their directories, and how long they will take."""

import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from carms.lab.data import Dataset
from carms.lab.evaluation import CHUNK, mean_bound
from carms.lab.executors import Run
from carms.lab.settings import Settings
from carms.lab.training import Trainer

__all__ = ["Standing", "last_line", "predicted_seconds", "standing"]

# Bytes at the end of a file of metrics in which its last line is.
TAIL = 4096
# Of a measurement.
WARM_UP, STEPS, SAMPLES = 3, 10, 20
# Images of a training and a test set, and pixels of an image.
_SIZES = {"omniglot": (31_345, 784), "digits": (1797, 64)}
_USUAL_SIZE = (60_000, 784)


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


def standing(run: Run) -> Standing:
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


def predicted_seconds(settings: Settings) -> tuple[float, float]:
    """Of a step and of the evaluation at the end, on one thread of this machine, by measurement on
    images that show nothing.
    """
    count, pixels = _SIZES.get(settings.dataset, _USUAL_SIZE)
    source = torch.Generator().manual_seed(0)
    images = torch.randint(256, (max(500, settings.batch), pixels), generator=source).byte()
    side = int(pixels**0.5)
    data = Dataset("noise", images, images[:0], images, side, side)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(replace(settings, upright=True), Path(folder, "run"), data=data)
            for _ in range(WARM_UP):
                trainer.one_step()
            step = _seconds(lambda: [trainer.one_step() for _ in range(STEPS)]) / STEPS
            few = images[:CHUNK]
            bound = _seconds(lambda: mean_bound(trainer.model, few, SAMPLES, seed=0))
    finally:
        torch.set_num_threads(threads)
    return step, bound / (len(few) * SAMPLES) * count * settings.likelihood_samples


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
