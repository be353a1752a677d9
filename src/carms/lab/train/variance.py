"""How much a gradient varies: estimators compared at the same parameters and images."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

import carms
from carms.estimators import Estimator
from carms.estimators.families.score_function import ScoreFunction
from carms.lab.models.latent import LatentModel

__all__ = [
    "Measured",
    "compare_variances",
    "contribution_variance",
    "gradient_variance",
    "gradients",
]

# Groups of repetitions whose variances tell how exact their mean is.
GROUPS = 10


@dataclass(frozen=True)
class Measured:
    """Variance of the gradients of one estimator.

    Attributes:
        estimator: its name.
        samples: how many it draws per gradient.
        variance: of the gradient of the mean objective of an image with respect to its logits,
            summed over the logits, mean over the images.
        error: its standard error.
        milliseconds: for a gradient of all images.
    """

    estimator: str
    samples: int
    variance: float
    error: float
    milliseconds: float


def compare_variances(
    model: LatentModel,
    images: Tensor,
    estimators: Mapping[str, int],
    repetitions: int,
    seed: int,
) -> Iterator[Measured]:
    """Measure one estimator after the other, over independent repetitions of the gradient.

    Args:
        model: with the parameters at which to measure.
        images: whose gradients are taken.
        estimators: names, and the number of samples of each.
        repetitions: number of gradients.
        seed: of the random numbers, the same for all.
    """
    for name, samples in estimators.items():
        estimator = carms.make(name, samples=samples)
        stream = torch.Generator(images.device).manual_seed(seed)
        each = max(2, repetitions // GROUPS)
        started = time.perf_counter()
        found = torch.tensor(
            [gradient_variance(estimator, model, images, each, stream) for _ in range(GROUPS)],
            dtype=torch.float64,
        )
        seconds = time.perf_counter() - started
        error = found.std().item() / GROUPS**0.5
        milliseconds = 1e3 * seconds / (each * GROUPS)
        yield Measured(name, samples, found.mean().item(), error, milliseconds)


def gradient_variance(
    estimator: Estimator,
    model: LatentModel,
    images: Tensor,
    repetitions: int,
    stream: torch.Generator,
) -> float:
    """Variance of the gradient of an image, mean over the images."""
    rows = torch.stack(list(gradients(estimator, model, images, repetitions, stream)))
    return rows.var(0).sum((-2, -1)).mean().item()


def gradients(
    estimator: Estimator,
    model: LatentModel,
    images: Tensor,
    repetitions: int,
    stream: torch.Generator,
) -> Iterator[Tensor]:
    """Independent gradients ``[images, D, C]`` with respect to the logits of the same images.

    An estimator that learns keeps its state.
    """
    logits = model.logits(images).detach()
    with _learning_nothing(estimator):
        for _ in range(repetitions):
            leaf = logits.clone().requires_grad_()
            value = estimator.expectation(model.objective(images, leaf, estimator), leaf, stream)
            yield torch.autograd.grad(value.sum(), leaf)[0]


@torch.no_grad()
def contribution_variance(
    estimator: ScoreFunction, model: LatentModel, images: Tensor, stream: torch.Generator
) -> float:
    """As in the paper: over the contributions of the samples of one gradient. It leaves out that
    they depend on each other, which is what CARMS lives on.
    """
    logits = model.logits(images)
    draw = estimator.sample(logits, stream)
    parts = estimator.contributions(draw, model.log_weight(images, logits)(draw.z))
    return parts.var(0).sum((-2, -1)).mean().item()


@contextmanager
def _learning_nothing(estimator: Estimator) -> Iterator[None]:
    """Estimators with a state keep it."""
    before = estimator.training
    estimator.eval()
    try:
        yield
    finally:
        estimator.train(before)
