"""MuProp."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.softmax import through_softmax
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.leaves import independent_one_hot, leaf
from carms.estimators.families.slopes import finite_slopes, slope
from carms.estimators.registry import register

__all__ = ["MuProp"]


class Memory(NamedTuple):
    """What a draw of ``muprop`` remembers beside its samples.

    Attributes:
        mean: ``[1, *batch, D, C]``, the probabilities, a leaf.
        hard: ``[N, *batch, D, C]`` one-hot.
    """

    mean: Tensor
    hard: Tensor


@register("muprop")
class MuProp(ControlVariate):
    """Differentiate the first-order Taylor expansion of ``f`` at the mean exactly, and the rest by
    REINFORCE.

    With ``t(z) = f(p) + f'(p) (z - p)``:
    ``g = 1/N sum_n (f(z_n) - t(z_n)) (z_n - p) + (diag(p) - p p^T) f'(p)``. Unbiased. N + 1
    evaluations of an ``f`` that is differentiable and defined at probability vectors: it is
    given p, then the samples.

    Args:
        samples: number of samples, at least 1.

    References:
        Gu et al. (2016) [gu2016]

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> value = carms.expectation(lambda z: z[..., 0, 1], logits, "muprop", samples=1)
        >>> torch.autograd.grad(value, logits)[0]  # a linear f is its own expansion
        tensor([[-0.1966,  0.1966]])
    """

    soft_points = True

    def evaluations(self, variables: int, categories: int) -> int:
        return self.samples + 1

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        probs, z, hard = independent_one_hot(self.samples, variables, generator)
        mean = leaf(probs.unsqueeze(0), variables)
        indices = torch.cat((probs.argmax(-1).unsqueeze(0), z))
        seen = torch.cat((mean, hard))
        return Draw(self, variables, indices, Memory(mean, hard), differentiable=seen)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        mean, hard = draw.memory
        p = mean[0].detach()
        slopes = finite_slopes(self, slope(self, fz[0], mean), p > 0)
        with torch.no_grad():
            score = hard - p
            rest = (fz[1:] - fz[0] - (slopes * score).sum((-2, -1)))[..., None, None]
            exact = through_softmax(p, slopes[0])
            return (rest * score).mean(0) + exact

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return fz[1:].mean(0)
