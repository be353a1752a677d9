"""What a task of the contest is, and what learns it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carms.estimators import Estimator
from carms.lab.train.learner import LEARNED_RATE
from carms.subsets import SubsetEstimator

__all__ = ["Entry", "GradientLearner", "Judged", "Task", "TaskLearner"]


class Judged(NamedTuple):
    """Quality of a model.

    Attributes:
        validation: on held-out training examples, by which rates and steps are chosen.
        test: on test examples, which decide nothing but the score.
    """

    validation: float
    test: float


class TaskLearner(ABC):
    """A model in training."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[Tensor]:
        """The parameters of the model, which are the same ones for all entries of a task."""

    @abstractmethod
    def step(self) -> float:
        """Change the parameters once, and return the value of the objective."""

    @abstractmethod
    def judge(self) -> Judged:
        """Judge the model as it is now."""


@dataclass(frozen=True)
class Entry:
    """An estimator as it takes part in a task.

    Attributes:
        name: name of the estimator.
        samples: number of samples of a gradient.
        evaluations: number of evaluations of ``f`` for a gradient; a mean if it is random.
        reason: why it cannot take part; empty if it can.
        unbiased: whether the mean of its gradient is the gradient.
    """

    name: str
    samples: int = 0
    evaluations: float = 0.0
    reason: str = ""
    unbiased: bool = True


@dataclass(frozen=True)
class Task:
    """One discipline of the contest.

    Attributes:
        name: name on the command line and in the names of files.
        title: what is learned, in a sentence.
        measure: what the score is.
        unit: unit of a lead.
        higher_wins: whether a higher score is better.
        rates: the rates of Adam from which each entry gets its own.
        steps: number of training steps.
        judge_every: steps between two judgements.
        seeds: number of runs of an entry at its rate.
        evaluations: number of evaluations of ``f`` for a gradient, the budget of every entry.
        entries: gives all estimators, also those that cannot take part.
        start: makes a learner from an entry, a rate and a seed.
        trials: number of trial runs of an entry at each rate.
        reference: the entry with which all others are compared.
        choices: what is chosen: categories, subsets or sequences, each with its own estimators.
        dataset: images that have to be on this machine; empty if none.
    """

    name: str
    title: str
    measure: str
    unit: str
    higher_wins: bool
    rates: tuple[float, ...]
    steps: int
    judge_every: int
    seeds: int
    evaluations: int
    entries: Callable[[], Sequence[Entry]]
    start: Callable[[Entry, float, int], TaskLearner]
    trials: int = 2
    reference: str = "loorf"
    choices: str = "categories"
    dataset: str = ""

    @property
    def judged_steps(self) -> tuple[int, ...]:
        """The steps after which a run is judged."""
        return tuple(range(self.judge_every, self.steps + 1, self.judge_every))

    def find(self, name: str) -> Entry:
        """Find an entry by its name."""
        return next(entry for entry in self.entries() if entry.name == name)


class GradientLearner(TaskLearner):
    """A learner that minimises a loss with Adam.

    The same seed gives every estimator the same first weights and the same examples.

    Args:
        estimator: makes the gradient of the choices.
        rate: learning rate of Adam.
        seed: seed of weights, examples and draws.
    """

    def __init__(self, estimator: Estimator | SubsetEstimator, rate: float, seed: int) -> None:
        self._estimator = estimator
        self.expectation: Callable[..., Tensor] = estimator.expectation
        self.examples, self.draws = (
            torch.Generator().manual_seed(2 * seed + part) for part in range(2)
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            groups = self.build()
        self._parameters = [one for group in groups for one in group["params"]]
        self._optimisers = [torch.optim.Adam(groups, lr=rate)]

    @property
    def parameters(self) -> Sequence[Tensor]:
        return self._parameters

    @abstractmethod
    def build(self) -> list[dict[str, Any]]:
        """Make the model, and return its groups of parameters for Adam."""

    @abstractmethod
    def loss(self) -> Tensor:
        """The mean loss of new examples."""

    def step(self) -> float:
        loss = self.loss()
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        loss.backward()
        # Some parameters of an estimator have a shape only after its first call.
        learned = [*self._estimator.parameters()]
        if learned and len(self._optimisers) == 1:
            self._optimisers.append(torch.optim.Adam(learned, lr=LEARNED_RATE))
        for optimiser in self._optimisers:
            optimiser.step()
        return loss.item()
