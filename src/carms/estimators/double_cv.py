"""Double control variates."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import real_number
from carms.core.dtypes import plain_numerics
from carms.core.means import less_mean
from carms.core.one_hot import one_hot
from carms.core.variables import Distribution, Variables, probabilities
from carms.estimators.base import Draw, Estimator
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.slopes import leaf, slope
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["DoubleCV", "samples_with_slopes"]


class Memory(NamedTuple):
    """What a draw of ``double-cv`` or ``rodeo`` remembers beside its samples.

    Attributes:
        probs: ``[*batch, D, C]``.
    """

    probs: Tensor


def samples_with_slopes(
    maker: Estimator, logits: Distribution, generator: torch.Generator | None
) -> Draw:
    """Independent one-hot samples with respect to which ``f`` can be differentiated."""
    variables = Variables.of(logits)
    with plain_numerics(variables.logits):
        probs = probabilities(variables.logits)
        indices = independent_samples(probs, maker.samples, generator)
        hard = one_hot(indices, probs.shape[-1], probs.dtype)
    return Draw(maker, variables, indices, Memory(probs), relaxed=leaf(hard, variables))


@register("double-cv")
class DoubleCV(ControlVariate):
    """Leave-one-out REINFORCE on ``f`` less a linear control variate from the other samples.

    With ``s_n`` the mean of ``f'(z_m)`` over ``m != n`` and ``h_n = f(z_n) - a s_n (z_n - p)``:
    ``g = 1/(N-1) sum_n (h_n - mean h) (z_n - p) + a (diag(p) - p p^T) mean f'``. The scale ``a`` is
    a parameter, learned on the variance; at 0 this is LOORF. Published for binary variables, but
    nothing in it needs that. Unbiased whatever ``a`` is. N evaluations of a differentiable ``f``.

    Args:
        samples: number of samples, at least 2.
        scale: the initial ``a`` above.

    References:
        Titsias and Shi (2022) [titsias2022]

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> estimator = carms.make("double-cv", samples=2)  # once; its scale can be trained
        >>> estimator.expectation(lambda z: z[..., 0, 1], logits).backward()
        >>> logits.grad  # two slopes of a linear f tell everything
        tensor([[-0.1966,  0.1966]])
    """

    learned = True
    least_samples = 2

    def __init__(self, samples: int = 8, scale: float = 1.0) -> None:
        super().__init__(samples)
        self.scale = torch.nn.Parameter(torch.tensor(real_number("scale", scale)))

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        return samples_with_slopes(self, logits, generator)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        assert draw.relaxed is not None
        slopes = slope(self, fz, draw.relaxed)
        probs, z = draw.memory.probs, draw.relaxed.detach()
        score, scale = z - probs, self.scale.to(probs)
        others = (slopes.sum(0) - slopes) / (self.samples - 1)
        centred = less_mean(fz.detach()).to(z.dtype)
        signal = centred - scale * (others * score).sum((-2, -1))
        signal = (signal - signal.mean(0))[..., None, None]
        mean = slopes.mean(0)
        exact = probs * (mean - (probs * mean).sum(-1, keepdim=True))
        return (signal * score).sum(0) / (self.samples - 1) + scale * exact
