"""Rollouts: a transformer learns to add by policy gradient alone."""

from collections.abc import Sequence

import torch
from torch import Tensor

from carms.lab.contest.task import Entry, Judged, Task, TaskLearner
from carms.lab.models.addition import Adder, held_out, mean_reward, problems, rewards
from carms.lab.runs.rollout_settings import METHODS

__all__ = ["ROLLOUTS"]

SAMPLES, PROMPTS = 16, 16


class RolloutLearner(TaskLearner):
    """A transformer and its rollouts.

    Args:
        copula: copula that couples the rollouts of a prompt.
        rate: learning rate of Adam.
        seed: seed of weights, prompts and rollouts.
    """

    def __init__(self, copula: str, rate: float, seed: int) -> None:
        weights, self._prompts, self._draws = (
            torch.Generator().manual_seed(3 * seed + part) for part in range(3)
        )
        self._copula = copula
        self._model = Adder(weights)
        self._optimiser = torch.optim.Adam(self._model.parameters(), lr=rate)

    @property
    def parameters(self) -> Sequence[Tensor]:
        return [*self._model.parameters()]

    def step(self) -> float:
        prompts = problems(PROMPTS, self._prompts)
        reward = mean_reward(self._model, prompts, SAMPLES, self._copula, generator=self._draws)
        self._optimiser.zero_grad()
        (-reward).backward()
        self._optimiser.step()
        return reward.item()

    def judge(self) -> Judged:
        return Judged(*[self._right(part) for part in held_out().chunk(2)])

    def _right(self, prompts: Tensor) -> float:
        return 100 * rewards(prompts, self._model.greedy(prompts)).mean().item()


def _entries() -> list[Entry]:
    return [Entry(name, SAMPLES, SAMPLES) for name in METHODS]


def _start(entry: Entry, rate: float, seed: int) -> TaskLearner:
    return RolloutLearner(METHODS[entry.name], rate, seed)


ROLLOUTS = Task(
    name="rollouts",
    title="A small transformer learns to add numbers of three digits to the base 4, by policy "
    "gradient alone",
    measure="right digits in answers to held-out prompts, per cent (25 by chance)",
    unit="per cent",
    higher_wins=True,
    rates=(1e-4, 3e-4, 1e-3),
    steps=600,
    judge_every=60,
    seeds=10,
    evaluations=SAMPLES,
    entries=_entries,
    start=_start,
    trials=5,
    reference="rloo",
    choices="sequences",
)
