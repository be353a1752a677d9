"""One estimator in a comparison: its gradients, their moments, and what they cost."""

import statistics
import time

import torch
from torch import Tensor

from carms.comparison.entries import Contestant
from carms.comparison.problem import Problem
from carms.comparison.table import Measurement
from carms.comparison.training import train_parameters
from carms.core.distinct import distinct
from carms.core.dtypes import precise_dtype

__all__ = ["Run"]


class Run:
    """One estimator on one problem, with running moments of its gradients.

    Args:
        problem: what to estimate the gradient of.
        contestant: the estimator and its label.
        generator: source of randomness; the global one if None.
        train: number of steps for which to train parameters first, if the estimator has any and
            was given by name.
    """

    def __init__(
        self,
        problem: Problem,
        contestant: Contestant,
        generator: torch.Generator | None,
        train: int,
    ) -> None:
        self.problem, self.generator = problem, generator
        self.label, self.estimator, given = contestant
        self.trained: int | None = None
        if self.estimator.learned:
            self.trained = 0 if given else train
        if self.trained:
            train_parameters(self.estimator, problem, self.trained, generator)
        # As in a call by name, which learns nothing. What is useless before it has learned, and has
        # no parameters to train, learns while it is measured.
        if not given and (self.estimator.learned or not self.estimator.stateful):
            self.estimator.eval()
        self.count, self.seconds = 0, list[float]()
        self.examples = self.distinct_points = 0
        precise = precise_dtype(problem.logits.device)
        self.mean = self.square = torch.zeros((), dtype=precise, device=problem.logits.device)

    def timed_call(self) -> None:
        """Estimate a gradient, and take the time."""
        start = _now(self.mean.device)
        gradient = self.problem.gradient(self.estimator, self.generator)
        self.seconds.append(_now(self.mean.device) - start)
        self._add(gradient)

    def counted_call(self) -> None:
        """Estimate a gradient, and count the distinct points at which ``f`` is evaluated."""
        self._add(self.problem.gradient(self.estimator, self.generator, self._counting))

    def _add(self, gradient: Tensor) -> None:
        # Welford's update: stable however many replicates there are.
        self.count += 1
        step = gradient.to(self.mean.dtype) - self.mean
        self.mean = self.mean + step / self.count
        self.square = self.square + step * (gradient - self.mean)

    def _counting(self, *seen: Tensor) -> Tensor:
        """Values of ``f``, whose points are counted."""
        _, place = distinct(self.problem.as_indices(*seen))
        self.examples += place[0].numel()
        self.distinct_points += int((place.amax(0) + 1).sum())
        return self.problem.f(*seen)

    def measurement(self, truth: Tensor | None) -> Measurement:
        """The row of the table; ``truth`` is the exact gradient, if it is known."""
        variance = float(self.square.sum()) / (self.count - 1)
        return Measurement(
            estimator=self.label,
            samples=self.estimator.samples,
            bias=None if truth is None else float((self.mean - truth).norm()),
            standard_error=(variance / self.count) ** 0.5,
            variance=variance,
            evaluations=self.distinct_points / self.examples,
            milliseconds=statistics.median(self.seconds) * 1e3,
            trained=self.trained,
        )


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()
