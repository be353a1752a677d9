"""Predict how long a run will take."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from carms.lab.data.datasets import Dataset
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import CHUNK, mean_bound
from carms.lab.train.training import Trainer

__all__ = ["predicted_seconds"]

# Steps before a measurement, steps of a measurement, and samples of an evaluation.
WARM_UP, STEPS, SAMPLES = 3, 10, 20
# Number of images of the training and the test set together, and of pixels of an image.
_SIZES = {"omniglot": (31_070, 784), "digits": (1597, 64)}
_USUAL_SIZE = (60_000, 784)


def predicted_seconds(settings: Settings) -> tuple[float, float]:
    """Seconds of a step, and of the evaluation at the end, on one thread of this machine; measured
    on images of noise.
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


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
