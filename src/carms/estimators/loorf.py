"""Leave-one-out REINFORCE."""

import torch
from torch import Tensor

from carms.core.means import less_mean
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["Loorf"]


@register("loorf", "vargrad")
class Loorf(ScoreFunction):
    """REINFORCE where each sample's baseline is the mean of the others; also called VarGrad.

    ``g = 1/(N-1) sum_n (f_n - mean f) z_n``. Unbiased, for any ``f``, N evaluations.

    Args:
        samples: independent samples, at least 2.

    References:
        - W. Kool, H. van Hoof, M. Welling (2019), Buy 4 REINFORCE samples, get a baseline for free!
        - L. Richter et al. (2020), VarGrad, arXiv:2010.10436.
    """

    least_samples = 2

    def __init__(self, samples: int = 8) -> None:
        super().__init__(samples)

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, None]:
        return independent_samples(probs, self.samples, generator), None

    def weights(self, draw: Draw, fz: Tensor) -> Tensor:
        return less_mean(fz) / (self.samples - 1)
