"""Direct optimisation through the arg max."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import positive_number, real_number
from carms.core.one_hot import one_hot
from carms.estimators.base import Draw
from carms.estimators.families.neighbours import AllNeighbours, neighbour_table, neighbours
from carms.estimators.registry import register
from carms.sampling.gumbel import exponentials, perturbed

__all__ = ["DirectArgmax"]


class Memory(NamedTuple):
    """What a draw of ``direct-argmax`` remembers beside its samples.

    Attributes:
        z: ``[N, *batch, D]`` samples.
        noisy: ``[N, *batch, D, C]``, the logits whose arg max they are.
    """

    z: Tensor
    noisy: Tensor


@register("direct-argmax")
class DirectArgmax(AllNeighbours):
    """Add ``epsilon f`` to noisy logits whose arg max is the sample: its change is the gradient.

    ``g[d] = 1/N sum_n (argmax(logits_d + noise + epsilon f(z_n with z_d = .)) - z_nd) / epsilon``.
    Biased, by ``O(epsilon)``: with one variable the expectation is
    ``(softmax(logits + epsilon f) - softmax(logits)) / epsilon``. The variance grows like
    ``1/epsilon``. Any ``f``; ``N (D (C - 1) + 1)`` evaluations.

    Args:
        samples: number of samples, at least 1.
        epsilon: share of ``f`` that is added; negative for the difference to the other side.

    References:
        Lorberbom et al. (2019) [lorberbom2019]

    Examples:
        >>> import carms
        >>> logits = torch.zeros(1000, 1, 2, requires_grad=True)
        >>> f = lambda z: z[..., 0, 1]
        >>> carms.expectation(f, logits, "direct-argmax", samples=1).sum().backward()
        >>> logits.grad[:, 0, 1].unique()  # a sample moves to what f prefers, or stays
        tensor([0., 1.])
    """

    unbiased = False

    def __init__(self, samples: int = 8, epsilon: float = 1.0) -> None:
        super().__init__(samples)
        self.epsilon = real_number("epsilon", epsilon)
        if not self.epsilon:
            raise ValueError(f"epsilon must be finite and not zero, got {epsilon}")
        positive_number("the size of epsilon", abs(self.epsilon))

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        shape = (self.samples, *probs.shape)
        noisy = perturbed(probs.log(), exponentials(shape, probs, generator, precise=False))
        z = noisy.argmax(-1)
        return neighbours(z, probs), Memory(z, noisy)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        z, noisy = draw.memory
        categories = noisy.shape[-1]
        moved = (noisy + self.epsilon * neighbour_table(fz, z, categories)).argmax(-1)
        change = one_hot(moved, categories, fz.dtype) - one_hot(z, categories, fz.dtype)
        return change.mean(0) / self.epsilon
