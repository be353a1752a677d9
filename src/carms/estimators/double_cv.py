"""Double control variates."""

import torch
from torch import Tensor

from carms.core.checks.options import real_number
from carms.core.means import less_mean, mean_of_others
from carms.core.softmax import through_softmax
from carms.core.variables import Distribution
from carms.estimators.base import Draw
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.leaves import WithLeaf, samples_with_slopes
from carms.estimators.families.slopes import finite_slopes, slope
from carms.estimators.registry import register

__all__ = ["DoubleCV"]


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

    def _gradient(self, draw: Draw[WithLeaf], fz: Tensor) -> Tensor:
        probs, leaf = draw.memory
        slopes = finite_slopes(self, slope(self, fz, leaf), probs > 0)
        score, scale = leaf.detach() - probs, self.scale.to(probs)
        others = mean_of_others(slopes)
        centred = less_mean(fz.detach()).to(probs.dtype)
        signal = centred - scale * (others * score).sum((-2, -1))
        signal = (signal - signal.mean(0))[..., None, None]
        exact = through_softmax(probs, slopes.mean(0))
        return (signal * score).sum(0) / (self.samples - 1) + scale * exact
