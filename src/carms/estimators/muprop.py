"""MuProp."""

import torch
from torch import Tensor

from carms.estimators.base import Draw, plain_numerics
from carms.estimators.differentiating import Differentiating, leaf, slope
from carms.estimators.drawing import independent_samples
from carms.inputs import Distribution, Variables, probabilities

__all__ = ["MuProp"]


class MuProp(Differentiating):
    """The first-order Taylor expansion of ``f`` at the mean is differentiated exactly, and only
    the rest by REINFORCE.

    With ``t(z) = f(p) + f'(p) (z - p)``:
    ``g = 1/N sum_n (f(z_n) - t(z_n)) (z_n - p) + (diag(p) - p p^T) f'(p)``. Unbiased. N + 1
    evaluations of an ``f`` that is differentiable and defined at probability vectors: it is
    given p, then the samples.

    Args:
        samples: at least 1.

    References:
        S. Gu, S. Levine, I. Sutskever, A. Mnih (2016), MuProp: Unbiased backpropagation for
        stochastic neural networks, arXiv:1511.05176.
    """

    def __init__(self, samples: int = 8) -> None:
        if samples < 1:
            raise ValueError(f"muprop needs at least 1 sample, got samples={samples}")
        self.samples = samples

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        with plain_numerics(variables.logits):
            probs = probabilities(variables.logits)
            z = independent_samples(probs, self.samples, generator)
            hard = Draw(variables, z).one_hot(probs.dtype)
        mean = leaf(probs.unsqueeze(0), variables)
        indices = torch.cat((probs.argmax(-1).unsqueeze(0), z))
        relaxed = torch.cat((mean, hard))
        return Draw(variables, indices, (mean, hard), relaxed, maker=self)

    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        mean, hard = draw.extra
        slopes = slope(self, fz[0], mean)
        with torch.no_grad():
            p = mean[0]
            score = hard - p
            rest = (fz[1:] - fz[0] - (slopes * score).sum((-2, -1)))[..., None, None]
            exact = p * (slopes[0] - (p * slopes[0]).sum(-1, keepdim=True))
            return (rest * score).mean(0) + exact

    def _value(self, draw: Draw, fz: Tensor) -> Tensor:
        return fz[1:].mean(0)
