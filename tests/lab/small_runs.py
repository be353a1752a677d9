"""Runs of a second, and what is left of them."""

import json
import sys

from carms.lab.runs.settings import Settings
from carms.lab.train.training import Trainer

SMALL = {
    "dataset": "digits",
    "network": "linear",
    "categories": 3,
    "latents": 4,
    "steps": 60,
    "log_every": 10,
    "eval_every": 20,
    "eval_samples": 3,
    "checkpoint_every": 20,
}
COMMAND = [sys.executable, "-m", "carms", "vae", "--out"]
FLAGS = [
    text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))
]
TIMINGS = ("milliseconds", "training_seconds", "evaluation_seconds")


def outcome(path):
    """Metrics and result, timings aside."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    lines.append(json.loads((path / "result.json").read_text()))
    *metrics, result = [{k: v for k, v in line.items() if k not in TIMINGS} for line in lines]
    return metrics, result


def train(path, **changes):
    Trainer(Settings(**{**SMALL, **changes}), path).run()
    return outcome(path)


def contents(path):
    """Every file, and every link as a link."""
    return {
        one.relative_to(path): one.readlink() if one.is_symlink() else one.read_bytes()
        for one in path.rglob("*")
        if one.is_symlink() or one.is_file()
    }


def flip(path, place):
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def damage_by_one_bit(path):
    flip(path, 8 * path.stat().st_size - 40)
