"""Leave-one-out REINFORCE."""

import torch
from torch import Tensor

from carms.core.means import less_mean
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["Loorf"]


@register("loorf", "rloo", "vargrad")
class Loorf(ScoreFunction):
    """REINFORCE with the mean of the other samples as the baseline; also called RLOO or VarGrad.

    ``g = 1/(N-1) sum_n (f_n - mean f) z_n``. Unbiased, for any ``f``, N evaluations.

    Args:
        samples: number of independent samples, at least 2.

    References:
        - Kool, van Hoof and Welling (2019) [kool2019buy]
        - Richter et al. (2020) [richter2020]

    Examples:
        >>> import carms
        >>> estimator = carms.make("loorf", samples=4)
        >>> draw = estimator.sample(torch.zeros(3, 2, requires_grad=True))
        >>> rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])  # of the four samples, from anywhere
        >>> estimator.surrogate(draw, rewards).item()
        0.25
    """

    balanced = True
    least_samples = 2

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, None]:
        return independent_samples(probs, self.samples, generator), None

    def weights(self, draw: Draw, fz: Tensor) -> Tensor:
        return less_mean(fz) / (self.samples - 1)
