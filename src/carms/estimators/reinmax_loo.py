"""ReinMax with a leave-one-out control variate."""

import torch
from torch import Tensor

from carms.estimators.drawing import independent_samples
from carms.estimators.reinmax import midpoint
from carms.estimators.reparameterised import Reparameterised
from carms.estimators.straight_through import softmax_slope

__all__ = ["ReinMaxLoo"]


class ReinMaxLoo(Reparameterised):
    """ReinMax with less variance and the same expectation, by leaving one sample out.

    The slope ``A_n = 2 J((z_n + p) / 2) - J(p) / 2`` of ReinMax has the mean ``J(p)``. Sample n
    uses ``A_n - mean of the other A + J(p)``: what is added has mean zero and does not depend on
    sample n. Where ``f`` is linear nothing is left to chance; with few samples of a steep ``f`` the
    variance may rise instead. Biased; exact where ``f`` is quadratic. N evaluations of a
    differentiable ``f``.

    Args:
        samples: independent ones, at least 2.

    References:
        L. Liu, C. Dong, X. Liu, B. Yu, J. Gao (2023), Bridging discrete and backpropagation:
        straight-through and beyond, arXiv:2304.08612, for ReinMax.
    """

    def __init__(self, samples: int = 8) -> None:
        if samples < 2:
            raise ValueError(f"ReinMaxLoo needs at least 2 samples, got samples={samples}")
        super().__init__(samples)

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        indices = independent_samples(probs, self.samples, generator)
        slopes = 2 * softmax_slope(logits, midpoint(indices, probs.detach()))
        others = (slopes.sum(0) - slopes) / (self.samples - 1)
        return indices, slopes - others + softmax_slope(logits, probs)
