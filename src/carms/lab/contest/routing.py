"""Hard routing: a picture is learned by two layers of experts, one of four in each."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from carms.estimators import make
from carms.lab.contest.entries import categorical_entries
from carms.lab.contest.task import Entry, GradientLearner, Judged, Task, TaskLearner

__all__ = ["ROUTING"]

EXPERTS, WIDTH, SAMPLES, BATCH, SIDE = 4, 4, 8, 128, 64
LAYERS = 2
# Weight of the entropy of the routes, lest experts be given up early.
ENTROPY = 0.01


def mixture(choices: Tensor, layers: list[Tensor], x: Tensor) -> Tensor:
    """Colours ``[..., 3]`` of points ``x [..., 2]`` by one-hot ``choices [..., 2, C]``."""
    for k, bend in enumerate((torch.tanh, torch.sigmoid)):
        chosen = (choices[..., k, :] @ layers[k].flatten(1)).unflatten(-1, layers[k].shape[1:])
        x = bend((chosen @ pad(x, (0, 1), value=1.0).unsqueeze(-1)).squeeze(-1))
    return x


def experts(scale: float, stream: torch.Generator | None = None) -> list[Tensor]:
    """Random weights of both layers."""
    shapes = (EXPERTS, WIDTH, 3), (EXPERTS, 3, WIDTH + 1)
    return [scale * torch.randn(shape, generator=stream) for shape in shapes]


def teach(x: Tensor) -> Tensor:
    """Colours of a teacher whose first experts own arms of a spiral and whose second own rings."""
    radius, angle = x.norm(dim=-1), torch.atan2(x[..., 1], x[..., 0])
    arm = (angle / (2 * torch.pi) + 0.3 * radius) % 1 * EXPERTS
    route = torch.stack((arm, 3.2 * radius), -1).long().clamp_max(EXPERTS - 1)
    teacher = experts(1.5, torch.Generator().manual_seed(0))
    return mixture(one_hot(route, EXPERTS).float(), teacher, x)


def points(count: int, stream: torch.Generator) -> Tensor:
    """Random points ``[count, 2]`` of the square."""
    return torch.rand(count, 2, generator=stream) * 2 - 1


class RoutingLearner(GradientLearner):
    """A router and its experts."""

    def build(self) -> list[dict[str, Any]]:
        hidden = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
        last = nn.Linear(64, LAYERS * EXPERTS), nn.Unflatten(-1, (LAYERS, EXPERTS))
        self._router = nn.Sequential(*hidden, *last)
        self._experts: list[Tensor] = [nn.Parameter(part) for part in experts(0.5)]
        return [{"params": [*self._router.parameters(), *self._experts]}]

    def loss(self) -> Tensor:
        x = points(BATCH, self.examples)
        wanted = teach(x)

        def error(choices: Tensor) -> Tensor:
            return (mixture(choices, self._experts, x) - wanted).square().sum(-1)

        logits = self._router(x).log_softmax(-1)
        loss = self.expectation(error, logits, self.draws)
        entropy = -(logits.exp() * logits).sum((-2, -1))
        mean: Tensor = (loss - ENTROPY * entropy).mean()
        return mean

    @torch.no_grad()
    def judge(self) -> Judged:
        axis = torch.linspace(-1, 1, SIDE)
        random = points(SIDE**2, torch.Generator().manual_seed(1))
        return Judged(self._error(random), self._error(torch.cartesian_prod(axis, axis)))

    def _error(self, x: Tensor) -> float:
        route = one_hot(self._router(x).argmax(-1), EXPERTS).float()
        return (mixture(route, self._experts, x) - teach(x)).square().sum(-1).mean().item()


def _entries() -> tuple[Entry, ...]:
    return categorical_entries(LAYERS, EXPERTS, SAMPLES, differentiable=True)


def _start(entry: Entry, rate: float, seed: int) -> TaskLearner:
    return RoutingLearner(make(entry.name, samples=entry.samples), rate, seed)


ROUTING = Task(
    name="routing",
    title="A mixture of experts learns a picture: two layers, one expert of four runs in each",
    measure="squared error of the likeliest route on a grid",
    unit="less squared error",
    higher_wins=False,
    rates=(3e-3, 1e-2, 3e-2),
    steps=1200,
    judge_every=100,
    seeds=10,
    evaluations=SAMPLES,
    entries=_entries,
    start=_start,
)
