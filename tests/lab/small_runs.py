"""Runs of a second, and what is left of them."""

import json

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
