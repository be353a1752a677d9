"""A grid of four runs of a second, and the command that trains them."""

import json
import subprocess
import sys
import time

from small_runs import TIMINGS

GRID = {
    "dataset": "digits",
    "network": "linear",
    "categories": 3,
    "latents": 4,
    "estimator": ["loorf", "carms-s"],
    "seed": [0, 1],
    "steps": 400,
    "log_every": 50,
    "checkpoint_every": 50,
    "eval_samples": 3,
}


def write_grid(path, **changes):
    grid = {**GRID, **changes}
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in grid.items()))
    return path


def command(*arguments):
    return [sys.executable, "-m", "carms", "sweep", *map(str, arguments)]


def sweep(*arguments, check=True):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=check)


def outcomes(folder):
    """Metrics and results of all runs, timings aside."""
    found = {}
    for path in sorted(folder.iterdir()):
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        lines.append(json.loads((path / "result.json").read_text()))
        found[path.name] = [{k: v for k, v in row.items() if k not in TIMINGS} for row in lines]
    return found


def wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def checkpoints(out):
    return [*out.glob("*/checkpoints/*.json")]
