"""No dependence at all: the copula under which CARMS is LOORF."""

from collections.abc import Sequence

import torch
from torch import Tensor

from carms.copulas.base import Copula
from carms.pairs import take_pairs
from carms.randomness import uniform

__all__ = ["Independent"]


class Independent(Copula):
    """Independent uniforms.

    >>> copula = Independent(samples=3)
    >>> copula.sample((5,)).shape
    torch.Size([5, 3])
    """

    closed_form = True

    def sample(
        self,
        shape: Sequence[int],
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        return uniform((*shape, self.samples), generator, dtype, device)

    def _joint(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def lift(self, left: Tensor, width: Tensor) -> Tensor:
        return torch.ones_like(take_pairs(width)[0])
