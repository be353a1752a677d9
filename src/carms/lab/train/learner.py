"""The model of a run, and the step that trains it."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from carms.estimators import Estimator, make
from carms.lab.data.datasets import Dataset, binarised, load
from carms.lab.models.build import build_model
from carms.lab.runs.settings import Settings
from carms.lab.train.adam import Adam
from carms.lab.train.batches import Batches
from carms.lab.train.state import joined, misfit, part

__all__ = ["LEARNED_RATE", "Learner", "Step"]

# Learning rate of the parameters of an estimator.
LEARNED_RATE = 1e-3


class Step(NamedTuple):
    """The images of a step, and the objective of these images before it."""

    images: Tensor
    objective: float


class Learner:
    """A model that learns: its data, its estimator, its optimisers and its random stream.

    Args:
        settings: what to train.
        device: where to compute.
        data: the images; by default those that the settings name.
    """

    def __init__(
        self,
        settings: Settings,
        device: torch.device | str = "cpu",
        data: Dataset | None = None,
    ) -> None:
        self.settings, self.device = settings, torch.device(device)
        # Options that the estimator does not take are an error before anything is written.
        self.estimator = settings.make_estimator()
        self.data = data or load(settings.dataset, upright=settings.upright)
        self.train_images = self.data.train.to(self.device)
        self.batches = Batches(len(self.train_images), settings.batch, settings.seed)
        # Training draws from one stream, whose state is kept; all else has streams of its own.
        self.stream = torch.Generator(self.device).manual_seed(settings.seed)
        mean = self.train_images.double().mean(0).div(255).float()
        self.model = build_model(settings, mean.cpu()).to(self.device)
        self._try_estimator()
        networks = [*self.model.encoder.parameters(), *self.model.decoder.parameters()]
        learned = [*self.estimator.parameters()]
        # The prior is updated by plain SGD in `_update`.
        self.optimisers = {"adam": Adam(networks, settings.rate)}
        if learned:
            self.optimisers["learned"] = Adam(learned, LEARNED_RATE)
        self._parameters = [*self.model.parameters(), *learned]
        self.step = 0
        # Sums since the last line of metrics.
        self.objective_sum = self.seconds_since_line = 0.0
        self.total_seconds = 0.0
        self._evaluations = 0

    def one_step(self) -> Step:
        """Take the next images, and change the parameters once."""
        started = time.perf_counter()
        index = self.batches.at(self.step)
        pixels = self.train_images.index_select(0, index.to(self.device))
        images = binarised(pixels, self.stream)
        with self._naming_divergence(images):
            value = self._update(images)
        self.step += 1
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the objective is {value} at step {self.step}, for the images "
                f"{index.tolist()} of the training set"
            )
        self.objective_sum += value
        seconds = time.perf_counter() - started
        self.seconds_since_line += seconds
        self.total_seconds += seconds
        return Step(images, value)

    @property
    def steps_since_line(self) -> int:
        """The number of steps to which the sums belong, after a step."""
        return (self.step - 1) % self.settings.log_every + 1

    def _update(self, images: Tensor) -> float:
        with self._precision():
            logits = self.model.logits(images)
            elbo = self.model.objective(images, logits, self.estimator)

            def counted(z: Tensor) -> Tensor:
                self._evaluations = len(z)
                return elbo(z)

            value = self.estimator.expectation(counted, logits, self.stream).mean()
        for parameter in self._parameters:
            parameter.grad = None
        # The objective is to grow; this spares the graph a node for the sign.
        value.backward(torch.full_like(value, -1))
        for optimiser in self.optimisers.values():
            optimiser.step()
        prior = self.model.prior
        if prior is not None and prior.grad is not None:
            with torch.no_grad():
                prior.sub_(prior.grad, alpha=self.settings.prior_rate)
        return value.item()

    @contextmanager
    def _naming_divergence(self, images: Tensor) -> Iterator[None]:
        """Blame training, if an estimator refuses numbers that are not finite any more."""
        try:
            yield
        except ValueError as error:
            stream = torch.Generator(self.device).manual_seed(0)
            found = self.model.logits(images), self.model.bound(images, 1, stream)
            if all(one.isfinite().all() for one in found):
                raise
            raise FloatingPointError(
                f"training has diverged: after step {self.step} the logits or the objective are "
                "not finite; try a lower rate"
            ) from error

    def _precision(self) -> AbstractContextManager[None]:
        if self.settings.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _try_estimator(self) -> None:
        """Call the estimator once: it refuses variables that it cannot take before anything is
        written, and some have parameters only after their first call.
        """
        self.estimator.to(self.device)
        logits = torch.zeros(1, *self.settings.shape, device=self.device, requires_grad=True)
        stream = torch.Generator(self.device).manual_seed(0)
        self.estimator.expectation(lambda z: z.sum((-2, -1)), logits, stream)

    def estimator_named(self, name: str, samples: int | None = None) -> Estimator:
        """The estimator of this run, with what it has learned, or a new one of another name.

        A new one of the same name, with another number of samples, has the options of this run.

        Args:
            name: name of the estimator.
            samples: number of samples of a gradient; by default what this run would use with it.
        """
        settings = self.settings
        samples = settings.samples_of(name) if samples is None else samples
        if name != settings.estimator:
            return make(name, samples=samples).to(self.device)
        if samples == settings.samples_of(name):
            return self.estimator
        return replace(settings, samples=samples).make_estimator().to(self.device)

    def state(self) -> dict[str, Tensor]:
        """Everything that the next steps depend on, except the step number."""
        optimisers = {which: one.state() for which, one in self.optimisers.items()}
        modules = {"model": self.model.state_dict(), "estimator": self.estimator.state_dict()}
        progress = [self.objective_sum, self.seconds_since_line, self.total_seconds]
        return {
            **joined({**modules, **optimisers}),
            "stream": self.stream.get_state(),
            "progress": torch.tensor(progress, dtype=torch.float64),
        }

    def restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Go back to what ``state`` gave at a step; an error if the tensors do not fit."""
        problem = self._misfit(tensors)
        if problem is not None:
            raise ValueError(problem)
        self.model.load_state_dict(part(tensors, "model"))
        self.estimator.load_state_dict(part(tensors, "estimator"))
        for which, optimiser in self.optimisers.items():
            optimiser.restore(part(tensors, which))
        self.stream.set_state(tensors["stream"])
        self.objective_sum, self.seconds_since_line, self.total_seconds = tensors[
            "progress"
        ].tolist()
        self.step = step

    def _misfit(self, tensors: Mapping[str, Tensor]) -> str | None:
        problem = misfit(tensors, self.state())
        if problem is None:
            try:
                torch.Generator(self.device).set_state(tensors["stream"])
            except RuntimeError as error:
                return f"stream is no state of a generator ({str(error).splitlines()[0]})"
        return problem
