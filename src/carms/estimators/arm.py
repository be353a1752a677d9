"""ARM, for binary variables."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.random import uniform
from carms.core.softmax import normalised
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct
from carms.estimators.registry import register

__all__ = ["Arm"]


class Memory(NamedTuple):
    """What a draw of ``arm`` remembers beside its samples.

    Attributes:
        half: ``1/2 - u``, zero where the variable is certain, ``[N / 2, *batch, D]``.
    """

    half: Tensor


@register("arm")
class Arm(Direct):
    """ARSM for binary variables: one uniform number read from either end.

    ``g = (f(z) - f(z')) (1/2 - u)`` for the logit of one, with ``z = [u < p]`` and
    ``z' = [1 - u < p]``. Unbiased, for any ``f`` of binary variables; N evaluations.

    Args:
        samples: number of samples, even; ``samples / 2`` independent pairs are averaged.

    References:
        Yin and Zhou (2018) [yin2018]

    Examples:
        >>> import carms
        >>> logits = torch.zeros(1000, requires_grad=True)
        >>> bits = torch.distributions.Bernoulli(logits=logits)
        >>> carms.expectation(lambda z: (z.mean(-1) > 0.5).float(), bits, "arm").backward()
        >>> bool(logits.grad.abs().max() <= 0.5)  # at most half of the range of f
        True
    """

    binary_only = True
    paired = True
    least_samples = 2

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        zero = normalised(probs)[..., 0]
        u = uniform((self.samples // 2, *zero.shape), generator, zero.dtype, zero.device)
        indices = torch.stack((1 - u >= zero, u >= zero)).long().flatten(0, 1)
        half = torch.where((zero > 0) & (zero < 1), 0.5 - u, 0)
        return indices, Memory(half)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        first, second = fz.unflatten(0, (2, -1))
        one = ((first - second) * draw.memory.half.to(fz.dtype)).mean(0)
        return torch.stack((-one, one), -1)
