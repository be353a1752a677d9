"""Gapped straight-through."""

import torch
from torch import Tensor

from carms.estimators.drawing import independent_samples
from carms.estimators.gumbel_softmax import check_temperature
from carms.estimators.reparameterised import Reparameterised
from carms.estimators.straight_through import softmax_slope
from carms.options import real_number

__all__ = ["GappedStraightThrough"]


class GappedStraightThrough(Reparameterised):
    """Straight-through Gumbel-Softmax whose noise is replaced by the least change that fits.

    The logit of the sampled category is raised to the largest, and all others lowered until they
    are at least ``gap`` below it; the slope is that of ``softmax(. / temperature)`` there. No
    noise beyond the sample itself, hence less variance. Biased. N evaluations of a
    differentiable ``f``.

    Args:
        samples: at least 1.
        temperature: of the softmax.
        gap: between the sampled category and the others.

    References:
        T.-H. Fan, T.-C. Chi, A. Rudnicky, P. Ramadge (2022), Training discrete deep generative
        models via gapped straight-through estimator, arXiv:2206.07235.
    """

    def __init__(self, samples: int = 8, temperature: float = 0.5, gap: float = 1.0) -> None:
        super().__init__(samples)
        self.temperature = check_temperature(temperature)
        if not 0 <= real_number("gap", gap) < float("inf"):
            raise ValueError(f"gap must be finite and not negative, got {gap}")
        self.gap = gap

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        indices = independent_samples(probs, self.samples, generator)
        categories = torch.arange(probs.shape[-1], device=probs.device)
        still = logits.detach()
        largest = still.amax(-1, keepdim=True)
        sampled = indices.unsqueeze(-1) == categories
        moved = torch.where(sampled, largest, torch.minimum(still, largest - self.gap))
        soft = (moved / self.temperature).softmax(-1)
        return indices, softmax_slope(logits, soft) / self.temperature

    def __repr__(self) -> str:
        options = f"temperature={self.temperature}, gap={self.gap}"
        return f"GappedStraightThrough(samples={self.samples}, {options})"
