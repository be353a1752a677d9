"""Rollouts whose randomness is a function of (seed, group, member) and of nothing else."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carms.core.random import inside_unit_interval
from carms.sampling.mixture import mix
from carms.sequences.counter import uniform_at, word_at
from carms.sequences.coupling import COPULAS, epsilon_of

__all__ = ["Addresses"]


@dataclass(frozen=True)
class Addresses:
    """Which rollout each row is. Members of one group are coupled, groups are independent.

    Attributes:
        seed: int64 ``[rows]``, new for each step of training.
        group: int64 ``[rows]``, such as the number of the prompt.
        member: int64 ``[rows]``, from 0 to ``samples - 1``.
    """

    seed: Tensor
    group: Tensor
    member: Tensor

    def points(
        self, samples: int, copula: str = "circular", epsilon: float | None = None
    ) -> Tensor:
        """``[rows]`` uniforms in (0, 1), those of a group drawn from the copula.

        Every row draws all points of its group, and takes its own.

        Args:
            samples: number of members of a group.
            copula: ``"circular"`` or ``"independent"``.
            epsilon: probability that a group is independent. Defaults to
                ``default_epsilon(samples)``.
        """
        epsilon = epsilon_of(copula, epsilon, samples)
        key = self._key(0)
        source = COPULAS[copula](samples)
        coupled = source.transform(_uniforms(word_at(key, 0), source.uniforms))
        free = _uniforms(word_at(key, 1), samples + 1)
        points = mix(coupled, free[:-1], free[-1], epsilon)
        return inside_unit_interval(points.gather(0, self.member.unsqueeze(0)).squeeze(0))

    def fresh(self, step: Tensor | int) -> Tensor:
        """``[rows]`` uniforms in [0, 1): the new bits of each row's point after token ``step``."""
        return uniform_at(self._key(1 + self.member), step)

    def _key(self, purpose: Tensor | int) -> Tensor:
        """One key for each use of random numbers: 0 for the group, 1 and more for its members."""
        return word_at(word_at(self.seed, self.group), purpose)


def _uniforms(key: Tensor, count: int) -> Tensor:
    """``[count, rows]`` uniforms in [0, 1)."""
    return uniform_at(key, torch.arange(count, device=key.device).unsqueeze(-1))
