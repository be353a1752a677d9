"""Plans for a craft with two thrusters, past rocks to a berth: every action is drawn at once.

A policy network sees the heights at which the craft starts and at which its berth lies, and gives
the logits of a whole plan: six turns, two thrusters, five levels each, so 12 categorical variables.
The simulation is a black box: rocks do not give way, and touching one costs 0.1 a tick. The return
is minus the distance from the berth and half of the speed at the end, less what was touched. Ten
plans are flown in a scene. ``reinforce`` has a learned critic for a baseline, the field's habit; to
the others, which compare the plans of a scene with each other, the critic makes no difference. The
score is the mean return of the likeliest plans for 512 other scenes. Of the rates 3e-3, 1e-2 and
3e-2, 1e-2 was the best for each with two other seeds. Measured: loorf -0.369 +- 0.009, carms-s
-0.382 +- 0.014, reinforce -0.391 +- 0.017; no lead is clear.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from contest import Outcome, Outcomes, compete
from torch import Tensor, nn

import carms
from carms.lab.figures.colours import colour

TURNS, TICKS, LEVELS, SAMPLES, BATCH = 6, 4, 5, 10, 32
ROCKS = torch.tensor([[-0.35, 0.5, 0.25], [-0.25, -0.4, 0.25], [0.35, 0.1, 0.2]])  # x, y, radius
RATES = {"carms-s": 1e-2, "loorf": 1e-2, "reinforce": 1e-2}
ENTROPY = 0.1  # weight of a bonus at first; it falls to nothing at the end


def scenes(count: int, stream: torch.Generator | None = None) -> Tensor:
    """Heights of the start, at the left, and of the berth, at the right: ``[count, 2]``."""
    return torch.rand(count, 2, generator=stream) * 1.6 - 0.8


HELD_OUT = scenes(512, torch.Generator().manual_seed(1000))


def fly(scene: Tensor, plan: Tensor) -> tuple[Tensor, Tensor]:
    """Places ``[time, ..., 2]`` and return ``[...]`` of a ``plan [..., turns, 2]`` of levels."""
    thrust = 0.05 * (plan - LEVELS // 2)
    side = torch.full_like(scene[..., 0], 0.9)
    place = torch.stack((-side, scene[..., 0]), -1).expand_as(thrust[..., 0, :])
    berth = torch.stack((side, scene[..., 1]), -1)
    speed = torch.zeros_like(place)
    places, cost = [place], torch.zeros_like(place[..., 0])
    for tick in range(TURNS * TICKS):
        speed = speed + thrust[..., tick // TICKS, :]
        place = place + 0.2 * speed
        away = place.unsqueeze(-2) - ROCKS[:, :2]
        distance = away.norm(dim=-1, keepdim=True)
        inside = (ROCKS[:, 2:] - distance).relu()
        place = place + (inside * away / distance).sum(-2)  # rocks do not give way
        cost = cost + 0.1 * (inside > 0).any(-2).squeeze(-1)
        places.append(place)
    miss = (place - berth).norm(dim=-1) + 0.5 * speed.norm(dim=-1)
    return torch.stack(places), -miss - cost


def network(outputs: int) -> nn.Module:
    """A network that sees a scene."""
    hidden = [nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


def train(estimator: str, seed: int, steps: int) -> Outcome:
    """Train; the picture is the places of the craft, ``[time, scenes, 2]``."""
    torch.manual_seed(seed)
    policy, critic = network(TURNS * 2 * LEVELS), network(1)
    optimiser = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=RATES[estimator])
    for step in range(steps):
        scene = scenes(BATCH)
        logits = policy(3 * scene).view(BATCH, TURNS * 2, LEVELS).log_softmax(-1)
        forecast = critic(3 * scene).squeeze(-1)

        def surprise(plan: Tensor, scene: Tensor = scene, forecast: Tensor = forecast) -> Tensor:
            return fly(scene, plan.unflatten(-1, (TURNS, 2)))[1] - forecast.detach()

        better = carms.expectation(surprise, logits, estimator, SAMPLES, one_hot=False)
        critic_loss = (forecast - (forecast + better).detach()).square()
        bonus = -ENTROPY * (1 - step / steps) * (logits.exp() * logits).sum((-2, -1))
        optimiser.zero_grad()
        (critic_loss - better - bonus).mean().backward()
        optimiser.step()
    with torch.no_grad():
        plan = policy(3 * HELD_OUT).view(-1, TURNS, 2, LEVELS).argmax(-1)
    places, returns = fly(HELD_OUT, plan)
    return Outcome(returns.mean().item(), places)


def draw(found: Outcomes, out: Path) -> None:
    """Draw forty flights of the middle seed, in the colours of the berths where they should end."""
    figure, axes = plt.subplots(1, len(found), figsize=(11, 4.6), layout="constrained", sharey=True)
    goals, shades = HELD_OUT[:40, 1], plt.get_cmap("turbo")
    for axis, (name, group) in zip(axes, found.items(), strict=True):
        middle = sorted(group, key=lambda one: one.score)[len(group) // 2]
        for x, y, radius in ROCKS.tolist():
            axis.add_patch(plt.Circle((x, y), radius, color="#C9C4BC", lw=0))
        for goal, path in zip(goals.tolist(), middle.picture.unbind(1), strict=False):
            shade = shades((goal + 0.8) / 1.6)
            axis.plot(*path.T, color=shade, lw=1.1, alpha=0.8)
            axis.plot(*path[0], "o", color=shade, mfc="white", ms=4)
            axis.plot(*path[-1], "o", color=shade, ms=4)
            axis.plot(1.1, goal, "<", color=shade, ms=7)
        axis.set(xlim=(-0.98, 1.16), ylim=(-1.3, 1.25), aspect="equal", xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        axis.set_title(f"{name}: {middle.score:.3g}", color=colour(name))
    figure.savefig(out, dpi=90)


if __name__ == "__main__":
    compete(__doc__, train, RATES, draw, "mean return", steps=1000, out="control.png")
