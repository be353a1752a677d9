"""Tasks with images: autoencoders and completion, by the learner of the lab."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from torch import Tensor

from carms.lab.contest.entries import categorical_entries
from carms.lab.contest.task import Entry, Judged, Task, TaskLearner
from carms.lab.data.datasets import Dataset, load, some_of, source_of
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import mean_bound
from carms.lab.train.learner import Learner

__all__ = ["image_task"]

# Training images that are held out.
VALIDATION = 1000
# Images of a validation or test set that are judged, and samples of their bound.
JUDGED, BOUND_SAMPLES = 500, 10


def image_task(
    name: str,
    title: str,
    settings: Settings,
    rates: tuple[float, ...],
    every: int,
    seeds: int,
    trials: int,
) -> Task:
    """The task of training a model of images.

    Args:
        name: name of the task.
        title: what is learned.
        settings: settings of all runs; estimator, samples, rate and seed are set by the run.
        rates: rates from which each entry chooses.
        every: steps between two judgements.
        seeds: number of runs.
        trials: number of trial runs at each rate.
    """
    budget = settings.samples_of("loorf")
    judged = min(JUDGED, source_of(settings.dataset).sizes[-1])

    def entries() -> tuple[Entry, ...]:
        return categorical_entries(*settings.shape, budget, differentiable=True)

    def start(entry: Entry, rate: float, seed: int) -> TaskLearner:
        own = replace(
            settings, estimator=entry.name, samples=max(entry.samples, 1), rate=rate, seed=seed
        )
        return ImageLearner(own)

    return Task(
        name=name,
        title=title,
        measure=f"bound of the log likelihood of {judged} test images by {BOUND_SAMPLES} samples, "
        "nats",
        unit="nats",
        higher_wins=True,
        rates=rates,
        steps=settings.steps,
        judge_every=every,
        seeds=seeds,
        evaluations=budget,
        trials=trials,
        entries=entries,
        start=start,
        dataset="" if settings.dataset == "digits" else settings.dataset,
    )


class ImageLearner(TaskLearner):
    """A model of images.

    Args:
        settings: settings of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self._data = held_out(settings.dataset)
        self._learner = Learner(settings, data=self._data)

    @property
    def parameters(self) -> Sequence[Tensor]:
        return [*self._learner.model.parameters()]

    def step(self) -> float:
        return self._learner.one_step().objective

    def judge(self) -> Judged:
        return Judged(self._bound(self._data.valid), self._bound(self._data.test))

    def _bound(self, images: Tensor) -> float:
        return mean_bound(self._learner.model, some_of(images, JUDGED), BOUND_SAMPLES, seed=0)[0]


@cache
def held_out(name: str) -> Dataset:
    """A set of images of which some training images, at most a fifth, are for validation."""
    data = load(name)
    kept = len(data.train) - min(VALIDATION, len(data.train) // 5)
    return replace(data, train=data.train[:kept], valid=data.train[kept:])
