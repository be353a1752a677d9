"""Coupled draws that are independent with probability epsilon.

The mixture bounds how rare a pair can be, and so every pair ratio, by ``1 / epsilon``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from carms.core.random import uniform

__all__ = ["draw_mixed", "mix", "mixed_lift"]


def draw_mixed(
    coupled: Tensor,
    switch_shape: Sequence[int],
    epsilon: float,
    generator: torch.Generator | None,
) -> Tensor:
    """Replace coupled uniforms by independent ones with probability epsilon.

    Args:
        coupled: uniforms of any shape.
        switch_shape: a shape that broadcasts to that of ``coupled``; whatever shares a switch is
            replaced together.
        epsilon: the probability.
        generator: source of randomness; the global one if None.
    """
    free = uniform(coupled.shape, generator, coupled.dtype, coupled.device)
    switch = uniform(switch_shape, generator, coupled.dtype, coupled.device)
    return mix(coupled, free, switch, epsilon)


def mix(coupled: Tensor, free: Tensor, switch: Tensor, epsilon: float) -> Tensor:
    """The ``free`` uniforms where the uniform ``switch`` is below epsilon, else the coupled ones.

    Examples:
        >>> mix(torch.tensor([0.1, 0.2]), torch.tensor([0.8, 0.9]), torch.tensor([0.7, 0.2]), 0.5)
        tensor([0.1000, 0.9000])
    """
    return torch.where(switch < epsilon, free, coupled)


def mixed_lift(lift: Tensor, epsilon: float) -> Tensor:
    """How much likelier than by chance a pair is drawn by the mixture, from its lift without it.

    Examples:
        >>> mixed_lift(torch.tensor([0.0, 1.0, 1.5]), 0.2)
        tensor([0.2000, 1.0000, 1.4000])
    """
    return lift if epsilon == 0 else (1 - epsilon) * lift + epsilon
