"""Leave-one-out REINFORCE."""

import torch
from torch import Tensor

from carms.estimators.base import Draw
from carms.estimators.drawing import ScoreFunction, independent_samples, less_mean

__all__ = ["Loorf"]


class Loorf(ScoreFunction):
    """REINFORCE where each sample's baseline is the mean of the others; also called VarGrad.

    ``g = 1/(N-1) sum_n (f_n - mean f) z_n``. Unbiased, for any ``f``, N evaluations.

    Args:
        samples: independent samples, at least 2.

    References:
        - W. Kool, H. van Hoof, M. Welling (2019), Buy 4 REINFORCE samples, get a baseline for free!
        - L. Richter et al. (2020), VarGrad, arXiv:2010.10436.
    """

    def __init__(self, samples: int = 8) -> None:
        if samples < 2:
            raise ValueError(f"loorf needs at least 2 samples, got samples={samples}")
        self.samples = samples

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, tuple[()]]:
        return independent_samples(probs, self.samples, generator), ()

    def _weights(self, draw: Draw, fz: Tensor) -> Tensor:
        return less_mean(fz) / (self.samples - 1)
