"""Double control variates."""

from dataclasses import replace

import torch
from torch import Tensor

from carms.estimators.base import Draw, Estimator, plain_numerics
from carms.estimators.differentiating import Differentiating, leaf, slope
from carms.estimators.drawing import independent_samples
from carms.inputs import Distribution, Variables, probabilities
from carms.options import real_number

__all__ = ["DoubleCV", "samples_with_slopes"]


def samples_with_slopes(
    maker: Estimator, logits: Distribution, generator: torch.Generator | None
) -> Draw:
    """Independent one-hot samples with respect to which ``f`` can be differentiated."""
    variables = Variables.of(logits)
    with plain_numerics(variables.logits):
        probs = probabilities(variables.logits)
        draw = Draw(variables, independent_samples(probs, maker.samples, generator), (probs,))
        hard = draw.one_hot(probs.dtype)
    return replace(draw, relaxed=leaf(hard, variables), maker=maker)


class DoubleCV(torch.nn.Module, Differentiating):
    """Leave-one-out REINFORCE on ``f`` less a linear control variate from the other samples.

    With ``s_n`` the mean of ``f'(z_m)`` over ``m != n`` and ``h_n = f(z_n) - a s_n (z_n - p)``:
    ``g = 1/(N-1) sum_n (h_n - mean h) (z_n - p) + a (diag(p) - p p^T) mean f'``. The scale ``a`` is
    a parameter, learned on the variance; at 0 this is LOORF. Published for binary variables, but
    nothing in it needs that. Unbiased whatever ``a`` is. N evaluations of a differentiable ``f``.

    Args:
        samples: at least 2.
        scale: the ``a`` above, at the start.

    References:
        M. Titsias and J. Shi (2022), Double control variates for gradient estimation in discrete
        latent variable models, arXiv:2111.05300.
    """

    def __init__(self, samples: int = 8, scale: float = 1.0) -> None:
        super().__init__()
        if samples < 2:
            raise ValueError(f"double-cv needs at least 2 samples, got samples={samples}")
        self.samples = samples
        self.scale = torch.nn.Parameter(torch.tensor(real_number("scale", scale)))

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        return samples_with_slopes(self, logits, generator)

    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        assert draw.relaxed is not None
        slopes = slope(self, fz, draw.relaxed)
        (probs,), z = draw.extra, draw.relaxed.detach()
        score, scale = z - probs, self.scale.to(probs)
        others = (slopes.sum(0) - slopes) / (self.samples - 1)
        centred = (fz - fz.mean(0)).detach().to(z.dtype)
        signal = centred - scale * (others * score).sum((-2, -1))
        signal = (signal - signal.mean(0))[..., None, None]
        mean = slopes.mean(0)
        exact = probs * (mean - (probs * mean).sum(-1, keepdim=True))
        return (signal * score).sum(0) / (self.samples - 1) + scale * exact

    def __repr__(self) -> str:
        return f"DoubleCV(samples={self.samples})"
