"""Variance of gradient estimators at the same parameters and images."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

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

# Number of groups of repetitions; the spread of their variances gives the standard error.
GROUPS = 10


@dataclass(frozen=True)
class Measured:
    """Variance of the gradients of one estimator.

    Attributes:
        estimator: label of the estimator.
        samples: number of samples of a gradient.
        variance: variance of the gradient of the mean objective of an image with respect to its
            logits, summed over the logits, mean over the images.
        error: standard error of the variance.
        milliseconds: time of a gradient of all images.
    """

    estimator: str
    samples: int
    variance: float
    error: float
    milliseconds: float


def compare_variances(
    model: LatentModel,
    images: Tensor,
    estimators: Mapping[str, Estimator],
    repetitions: int,
    seed: int,
) -> Iterator[Measured]:
    """Measure one estimator after the other, over independent repetitions of the gradient.

    Args:
        model: model with the parameters at which to measure.
        images: images whose gradients are taken.
        estimators: estimators by their labels.
        repetitions: number of gradients of each, at least 20.
        seed: seed of the random numbers, the same for all.
    """
    each, more = divmod(repetitions, GROUPS)
    sizes = [each + (group < more) for group in range(GROUPS)]
    for label, estimator in estimators.items():
        stream = torch.Generator(images.device).manual_seed(seed)
        started = time.perf_counter()
        found = torch.tensor(
            [gradient_variance(estimator, model, images, size, stream) for size in sizes],
            dtype=torch.float64,
        )
        milliseconds = 1e3 * (time.perf_counter() - started) / repetitions
        error = found.std().item() / GROUPS**0.5
        yield Measured(label, estimator.samples, found.mean().item(), error, milliseconds)


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

    The state of an estimator that learns does not change.
    """
    logits = model.logits(images).detach()
    with _frozen(estimator):
        for _ in range(repetitions):
            leaf = logits.clone().requires_grad_()
            value = estimator.expectation(model.objective(images, leaf, estimator), leaf, stream)
            yield torch.autograd.grad(value.sum(), leaf)[0]


@torch.no_grad()
def contribution_variance(
    estimator: ScoreFunction, model: LatentModel, images: Tensor, stream: torch.Generator
) -> float:
    """Variance as the paper measures it: over the contributions of the samples of one gradient.

    It neglects that the samples depend on each other, by which CARMS gains.
    """
    logits = model.logits(images)
    draw = estimator.sample(logits, stream)
    parts = estimator.contributions(draw, model.log_weight(images, logits)(draw.z))
    return parts.var(0).sum((-2, -1)).mean().item()


@contextmanager
def _frozen(estimator: Estimator) -> Iterator[None]:
    """Keep the state of an estimator as it is."""
    before = estimator.training
    estimator.eval()
    try:
        yield
    finally:
        estimator.train(before)
