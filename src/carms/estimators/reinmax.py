"""ReinMax."""

import torch
from torch import Tensor

from carms.estimators.drawing import independent_samples
from carms.estimators.gumbel_softmax import check_temperature
from carms.estimators.reparameterised import Reparameterised
from carms.estimators.straight_through import softmax_slope

__all__ = ["ReinMax"]


class ReinMax(Reparameterised):
    """Straight-through to the second order, by Heun's method instead of Euler's.

    The slope of the softmax is taken at the midpoint of sample and probabilities,
    ``m = (z + softmax(logits / temperature)) / 2``: it is ``2 J(m) - J(p) / 2`` with
    ``J(p) = diag(p) - p p^T``. Biased; exact where ``f`` is quadratic and the temperature 1. N
    evaluations of a differentiable ``f``.

    Args:
        samples: at least 1.
        temperature: 1 is the second-order method; the paper tunes it.

    References:
        L. Liu, C. Dong, X. Liu, B. Yu, J. Gao (2023), Bridging discrete and backpropagation:
        straight-through and beyond, arXiv:2304.08612.
    """

    def __init__(self, samples: int = 8, temperature: float = 1.0) -> None:
        super().__init__(samples)
        self.temperature = check_temperature(temperature)

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        indices = independent_samples(probs, self.samples, generator)
        categories = torch.arange(probs.shape[-1], device=probs.device)
        hard = (indices.unsqueeze(-1) == categories).to(probs.dtype)
        middle = (hard + (logits.detach() / self.temperature).softmax(-1)) / 2
        slope = 2 * softmax_slope(logits, middle) - softmax_slope(logits, probs) / 2
        return indices, slope

    def __repr__(self) -> str:
        return f"ReinMax(samples={self.samples}, temperature={self.temperature})"
