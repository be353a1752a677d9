"""Local expectation gradients."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.softmax import through_softmax
from carms.estimators.base import Draw
from carms.estimators.families.neighbours import AllNeighbours, neighbour_table, neighbours
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["LocalExpectation"]


class Memory(NamedTuple):
    """What a draw of ``local-expectation`` remembers beside its samples.

    Attributes:
        z: ``[N, *batch, D]`` samples.
        probs: ``[*batch, D, C]``.
    """

    z: Tensor
    probs: Tensor


@register("local-expectation")
class LocalExpectation(AllNeighbours):
    """Sum over one variable at a time exactly, while the others stay as they were drawn.

    ``g[d, c] = 1/N sum_n p[d, c] (f(z_n with z_d = c) - sum_k p[d, k] f(z_n with z_d = k))``.
    With one variable this is the exact gradient. All variables share the same N samples. The value
    is averaged in the same way, over every variable in turn. Unbiased, for any ``f``;
    ``N (D (C - 1) + 1)`` evaluations.

    Args:
        samples: number of samples of all variables, at least 1.

    References:
        Titsias and Lazaro-Gredilla (2015) [titsias2015]

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0, 2.0]], requires_grad=True)
        >>> f = lambda z: z[..., 0, 1].square()
        >>> value = carms.expectation(f, logits, "local-expectation", samples=1)
        >>> torch.testing.assert_close(value, carms.expectation(f, logits, "exact"))  # one variable
    """

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        z = independent_samples(probs, self.samples, generator)
        return neighbours(z, probs), Memory(z, probs)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        z, probs = draw.memory
        return through_softmax(probs, neighbour_table(fz, z, probs.shape[-1])).mean(0)

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        z, probs = draw.memory
        if z.shape[-1] == 0:
            return fz.mean(0)
        table = neighbour_table(fz.unsqueeze(-1), z, probs.shape[-1])
        return (probs * table).sum(-1).mean((0, -1)).to(fz.dtype)
