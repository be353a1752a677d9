"""The settings of a run that learns by policy gradient."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["METHODS", "Method", "RolloutSettings"]

Method = Literal["rloo", "carms"]
METHODS: dict[str, str] = {"rloo": "independent", "carms": "circular"}
"""Methods, and their copulas: the methods differ in nothing else."""


@dataclass(frozen=True)
class RolloutSettings:
    """The settings of a run: everything that its numbers depend on.

    Attributes:
        method: a name from ``METHODS``.
        seed: seed of weights, prompts and rollouts. Methods with the same seed begin with the same
            weights and see the same prompts.
        steps: number of training steps.
        samples: number of rollouts of a prompt.
        prompts: number of prompts in a step.
        epsilon: probability of independent rollouts, see [`carms.sequences.rollouts`][].
        rate: learning rate of Adam.
        log_every: number of steps from one line of ``metrics.jsonl`` to the next.
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
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be positive and finite, got {self.rate}")

    def to_json(self) -> dict[str, Any]:
        """Make a dictionary of every setting, with types that JSON has."""
        return {"task": "addition", **asdict(self)}
