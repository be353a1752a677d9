"""Train a transformer from nothing by policy gradient, on answers that can be checked."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from carms import sequences
from carms.lab.models.addition import Adder, answers, held_out, problems, rewards
from carms.lab.runs.store import RunDirectory

__all__ = ["METHODS", "Method", "RolloutSettings", "train"]

Method = Literal["rloo", "carms"]
# The copula of a method is all that tells it from the other.
METHODS: dict[Method, str] = {"rloo": "independent", "carms": "circular"}

# Gradients at fixed parameters and prompts, of which a variance is made, and how often it is.
REPETITIONS = 8
VARIANCE_EVERY = 4


@dataclass(frozen=True)
class RolloutSettings:
    """A run: everything that its numbers depend on.

    Attributes:
        method: a name from ``METHODS``.
        seed: of weights, prompts and rollouts; with the same one, methods begin with the same
            weights and see the same prompts.
        steps: of training.
        samples: rollouts per prompt.
        prompts: per step.
        epsilon: of the correlated rollouts, see [`carms.sequences.rollouts`][].
        rate: of Adam.
        log_every: steps between lines of ``metrics.jsonl``.
    """

    method: Method
    seed: int
    steps: int
    samples: int
    prompts: int
    epsilon: float | None
    rate: float
    log_every: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"methods are {', '.join(METHODS)}, got {self.method!r}")
        for name, least in (("steps", 1), ("samples", 2), ("prompts", 1), ("log_every", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.epsilon is not None and not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon is a probability, got {self.epsilon}")
        if not self.rate > 0:
            raise ValueError(f"rate must be positive, got {self.rate}")

    def to_json(self) -> dict[str, Any]:
        """Every setting, as JSON knows it."""
        return {"task": "addition", **asdict(self)}


def train(settings: RolloutSettings, path: Path) -> dict[str, Any]:
    """Train a run and give what ``result.json`` has; at once if it is there.

    A run that was stopped begins anew: it takes minutes.
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
    """The lines of a run's metrics, the first of them before the first step."""
    weights, tasks, draws = (
        torch.Generator().manual_seed(3 * settings.seed + part) for part in range(3)
    )
    model = Adder(weights)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate, fused=True)
    test = held_out()
    yield {"step": 0, **_on(model, test)}
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
        last = step == settings.steps
        if step % settings.log_every == 0 or last:
            count = (step - 1) % settings.log_every + 1
            yield {
                "step": step,
                **_on(model, test),
                "training_reward": earned / count,
                **(
                    _variances(model, prompts, settings, step)
                    if _is_measured(step, settings)
                    else {}
                ),
                "milliseconds": 1e3 * spent / count,
            }
            earned = spent = 0.0


def _objective(
    model: Adder,
    prompts: Tensor,
    method: Method,
    settings: RolloutSettings,
    stream: torch.Generator,
) -> Tensor:
    """The mean reward of new rollouts, with the policy gradient behind it."""
    length = answers(prompts).shape[-1]
    group = sequences.rollouts(
        model.step,
        prompts,
        settings.samples,
        length,
        METHODS[method],
        settings.epsilon,
        generator=stream,
    )
    log_probs = model.log_probs(prompts, group.tokens)
    return sequences.surrogate(rewards(prompts, group.tokens), log_probs, group).mean()


def _on(model: Adder, prompts: Tensor) -> dict[str, float]:
    """Share of right digits, and of answers that are right altogether, by greedy decoding."""
    found = rewards(prompts, model.greedy(prompts))
    return {"reward": found.mean().item(), "solved": (found == 1).float().mean().item()}


def _is_measured(step: int, settings: RolloutSettings) -> bool:
    return step % (VARIANCE_EVERY * settings.log_every) == 0 or step == settings.steps


def _variances(
    model: Adder, prompts: Tensor, settings: RolloutSettings, step: int
) -> dict[str, float]:
    """Of the gradient, summed over all parameters: every method at those that this run has."""
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
