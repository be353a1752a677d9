"""Control: a whole plan for a craft with two thrusters is drawn at once, and f is a black box."""

from typing import Any

import torch
from torch import Tensor, nn

from carms.estimators import make
from carms.lab.contest.entries import categorical_entries
from carms.lab.contest.task import Entry, GradientLearner, Judged, Task, TaskLearner

__all__ = ["CONTROL"]

TURNS, TICKS, LEVELS, SAMPLES, BATCH = 6, 4, 5, 10, 32
ROCKS = torch.tensor([[-0.35, 0.5, 0.25], [-0.25, -0.4, 0.25], [0.35, 0.1, 0.2]])  # x, y, radius
# Weight of the entropy of the plans, lest levels be given up early.
ENTROPY = 0.05


def scenes(count: int, stream: torch.Generator) -> Tensor:
    """Heights ``[count, 2]`` of the start, at the left, and of the berth, at the right."""
    return torch.rand(count, 2, generator=stream) * 1.6 - 0.8


def fly(scene: Tensor, plan: Tensor) -> Tensor:
    """Returns ``[...]`` of plans ``[..., turns, 2]`` of levels: minus the distance from the berth
    and half of the speed at the end, less 0.1 for each tick on a rock.
    """
    thrust = 0.05 * (plan - LEVELS // 2)
    side = torch.full_like(scene[..., 0], 0.9)
    place = torch.stack((-side, scene[..., 0]), -1).expand_as(thrust[..., 0, :])
    berth = torch.stack((side, scene[..., 1]), -1)
    speed, cost = torch.zeros_like(place), torch.zeros_like(place[..., 0])
    for tick in range(TURNS * TICKS):
        speed = speed + thrust[..., tick // TICKS, :]
        place = place + 0.2 * speed
        away = place.unsqueeze(-2) - ROCKS[:, :2]
        distance = away.norm(dim=-1, keepdim=True)
        inside = (ROCKS[:, 2:] - distance).relu()
        place = place + (inside * away / distance).sum(-2)
        cost = cost + 0.1 * (inside > 0).any(-2).squeeze(-1)
    miss: Tensor = (place - berth).norm(dim=-1) + 0.5 * speed.norm(dim=-1)
    return -miss - cost


class ControlLearner(GradientLearner):
    """A policy that sees a scene and gives the logits of a plan."""

    def build(self) -> list[dict[str, Any]]:
        hidden = [nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
        last = nn.Linear(64, TURNS * 2 * LEVELS), nn.Unflatten(-1, (TURNS * 2, LEVELS))
        self._policy = nn.Sequential(*hidden, *last)
        return [{"params": [*self._policy.parameters()]}]

    def loss(self) -> Tensor:
        scene = scenes(BATCH, self.examples)
        logits = self._policy(3 * scene).log_softmax(-1)

        def cost(plan: Tensor) -> Tensor:
            return -fly(scene, plan.unflatten(-1, (TURNS, 2)))

        loss = self.expectation(cost, logits, self.draws, one_hot=False)
        entropy = -(logits.exp() * logits).sum((-2, -1))
        mean: Tensor = (loss - ENTROPY * entropy).mean()
        return mean

    @torch.no_grad()
    def judge(self) -> Judged:
        return Judged(*[self._mean_return(seed) for seed in (1001, 1000)])

    def _mean_return(self, seed: int) -> float:
        scene = scenes(512, torch.Generator().manual_seed(seed))
        plan = self._policy(3 * scene).argmax(-1).unflatten(-1, (TURNS, 2))
        return fly(scene, plan).mean().item()


def _entries() -> tuple[Entry, ...]:
    return categorical_entries(TURNS * 2, LEVELS, SAMPLES, differentiable=False)


def _start(entry: Entry, rate: float, seed: int) -> TaskLearner:
    return ControlLearner(make(entry.name, samples=entry.samples), rate, seed)


CONTROL = Task(
    name="control",
    title="A plan for a craft with two thrusters, past rocks to a berth: 12 variables of five "
    "levels, and the simulation is a black box",
    measure="mean return of the likeliest plans in 512 scenes",
    unit="return",
    higher_wins=True,
    rates=(3e-3, 1e-2, 3e-2),
    steps=1000,
    judge_every=100,
    seeds=10,
    evaluations=SAMPLES,
    entries=_entries,
    start=_start,
)
