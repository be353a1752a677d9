"""Train a transformer from nothing by policy gradient, on answers that can be checked."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from carms.lab.models.addition import Adder, held_out, mean_reward, problems, rewards
from carms.lab.runs.rollout_settings import METHODS, RolloutSettings
from carms.lab.runs.store import RunDirectory

__all__ = ["train_rollouts"]

# Number of gradients of which a variance is made, and lines of metrics from one variance to the
# next.
REPETITIONS = 8
VARIANCE_EVERY = 4


def train_rollouts(settings: RolloutSettings, path: Path) -> dict[str, Any]:
    """Train a run and give what ``result.json`` has; at once if it is there.

    A run that was stopped begins anew, because a whole run takes minutes only.
    """
    directory = RunDirectory(path, settings.to_json())
    with directory.held():
        if directory.result is None:
            # There are no checkpoints, so this drops the lines of a run that was stopped.
            directory.resume()
            line: dict[str, Any] = {}
            started = time.process_time()
            for line in _lines(settings):
                directory.log(line)
            seconds = time.process_time() - started
            kept = {name: line[name] for name in ("step", "reward", "solved")}
            directory.finish({**kept, "processor_seconds": seconds})
    result = directory.result
    assert result is not None
    return result


def _lines(settings: RolloutSettings) -> Iterator[dict[str, Any]]:
    """Train, and give the lines of metrics, the first of them before the first step."""
    weights, tasks, draws = (
        torch.Generator().manual_seed(3 * settings.seed + part) for part in range(3)
    )
    model = Adder(weights)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate, fused=True)
    test = held_out()
    yield {"step": 0, **_measured(model, test)}
    earned = spent = 0.0
    for step in range(1, settings.steps + 1):
        began = time.process_time()
        prompts = problems(settings.prompts, tasks)
        objective = _objective(model, prompts, settings.method, settings, draws)
        optimiser.zero_grad()
        (-objective).backward()
        optimiser.step()
        earned += objective.item()
        spent += time.process_time() - began
        if step % settings.log_every == 0 or step == settings.steps:
            count = (step - 1) % settings.log_every + 1
            line = {"step": step, **_measured(model, test), "training_reward": earned / count}
            if step % (VARIANCE_EVERY * settings.log_every) == 0 or step == settings.steps:
                line |= _variances(model, prompts, settings, step)
            yield {**line, "milliseconds": 1e3 * spent / count}
            earned = spent = 0.0


def _objective(
    model: Adder, prompts: Tensor, method: str, settings: RolloutSettings, stream: torch.Generator
) -> Tensor:
    copula = METHODS[method]
    return mean_reward(model, prompts, settings.samples, copula, settings.epsilon, stream)


def _measured(model: Adder, prompts: Tensor) -> dict[str, float]:
    """Share of right digits, and of answers that are right altogether, by greedy decoding."""
    found = rewards(prompts, model.greedy(prompts))
    return {"reward": found.mean().item(), "solved": (found == 1).float().mean().item()}


def _variances(
    model: Adder, prompts: Tensor, settings: RolloutSettings, step: int
) -> dict[str, float]:
    """Variance of the gradient, summed over all parameters, of every method at the parameters and
    prompts that this run has now.
    """
    found = {}
    for method in METHODS:
        stream = torch.Generator().manual_seed((settings.seed << 32) + step)
        gradients = []
        for _ in range(REPETITIONS):
            objective = _objective(model, prompts, method, settings, stream)
            parts = torch.autograd.grad(objective, [*model.parameters()])
            gradients.append(torch.cat([part.flatten() for part in parts]))
        found[f"variance_{method}"] = torch.stack(gradients).var(0).sum().item()
    return found
