"""Predict how long a run will take."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from carms.lab.data.datasets import Dataset, source_of
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import CHUNK, mean_bound
from carms.lab.train.training import Trainer

__all__ = ["predicted_seconds"]

# Steps before a measurement, steps of a measurement, and samples of an evaluation.
WARM_UP, STEPS, SAMPLES = 3, 10, 20


def predicted_seconds(settings: Settings) -> tuple[float, float]:
    """Seconds of a step, and of the evaluation at the end, on one thread of this machine; measured
    on images of noise.
    """
    source = source_of(settings.dataset)
    side, (train, _, test) = source.side, source.sizes
    stream = torch.Generator().manual_seed(0)
    images = torch.randint(256, (max(500, settings.batch), side**2), generator=stream).byte()
    data = Dataset(images, images[:0], images, side)
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
    # All training and test images are evaluated.
    return step, bound / (len(few) * SAMPLES) * (train + test) * settings.likelihood_samples


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
