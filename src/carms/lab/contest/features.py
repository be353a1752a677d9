"""Feature selection: eight of 64 pixels, as a subset, to read a digit by."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from carms import subsets
from carms.lab.contest.task import Entry, GradientLearner, Judged, Task, TaskLearner
from carms.lab.extras import needed

__all__ = ["FEATURES"]

CHOSEN, PIXELS, SAMPLES, BATCH = 8, 64, 8, 64
READER_RATE = 2e-3
VALIDATION, TEST, TREES = 300, 500, 100


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Images ``[1797, 64]`` and their labels: for training, then validation, then test."""
    images, labels = needed("sklearn.datasets").load_digits(return_X_y=True)
    return torch.tensor(images).float() / 16, torch.tensor(labels)


class FeatureLearner(GradientLearner):
    """Logits of the pixels, and a network that reads an image of which it sees a subset."""

    def build(self) -> list[dict[str, Any]]:
        self._choice = nn.Parameter(torch.zeros(PIXELS))
        self._reader = nn.Sequential(nn.Linear(2 * PIXELS, 128), nn.ReLU(), nn.Linear(128, 10))
        reader = {"params": [*self._reader.parameters()], "lr": READER_RATE}
        return [reader, {"params": [self._choice]}]

    def loss(self) -> Tensor:
        images, labels = digits()
        count = len(images) - VALIDATION - TEST
        rows = torch.randint(count, (BATCH,), generator=self.examples)
        seen, wanted = images[rows], labels[rows]

        def surprise(z: Tensor) -> Tensor:
            found = self._reader(torch.cat((z * seen, z), -1)).log_softmax(-1)
            right: Tensor = found.gather(-1, wanted.expand(z.shape[:-1]).unsqueeze(-1))
            return -right.squeeze(-1)

        # Every image has samples of its own.
        logits = self._choice.expand(BATCH, PIXELS)
        mean: Tensor = self.expectation(surprise, logits, self.draws).mean()
        return mean

    def judge(self) -> Judged:
        images, labels = digits()
        pixels = self._choice.detach().topk(CHOSEN).indices
        parts = [len(images) - VALIDATION - TEST, VALIDATION, TEST]
        seen, wanted = images[:, pixels].split(parts), labels.split(parts)
        forest = needed("sklearn.ensemble").ExtraTreesClassifier(TREES, random_state=0)
        forest.fit(seen[0], wanted[0])
        return Judged(*[100 * float(forest.score(seen[k], wanted[k])) for k in (1, 2)])


@cache
def _entries() -> tuple[Entry, ...]:
    return tuple(map(_entry, subsets.available()))


def _entry(name: str) -> Entry:
    made = subsets.make(name, CHOSEN, samples=SAMPLES)
    try:
        draw = made.sample(torch.zeros(PIXELS))
    except ValueError as error:
        return Entry(name, reason=str(error))
    return Entry(name, SAMPLES, len(draw.items), unbiased=made.unbiased)


def _start(entry: Entry, rate: float, seed: int) -> TaskLearner:
    return FeatureLearner(subsets.make(entry.name, CHOSEN, samples=entry.samples), rate, seed)


FEATURES = Task(
    name="features",
    title="Eight of 64 pixels, drawn as a subset, by which a small network reads digits",
    measure="test accuracy of fresh trees that see the eight likeliest pixels, per cent",
    unit="per cent",
    higher_wins=True,
    rates=(3e-3, 1e-2, 3e-2),
    steps=600,
    judge_every=60,
    seeds=10,
    evaluations=SAMPLES,
    entries=_entries,
    start=_start,
    trials=5,
    choices="subsets",
)
