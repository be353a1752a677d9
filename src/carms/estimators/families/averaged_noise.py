"""Estimators whose slope is averaged over the Gumbel noise that gives the same sample."""

import torch
from torch import Tensor

from carms.core.checks.options import positive_number, whole_number
from carms.core.softmax import softmax
from carms.couplings import Coupling
from carms.estimators.families.hard_samples import HardSamples
from carms.estimators.families.softmax_slope import mean_softmax_slope
from carms.sampling.gumbel import exponentials, perturbed_given

__all__ = ["AveragedNoise"]


class AveragedNoise(HardSamples):
    """Estimators that use the slope of a softmax under Gumbel noise, averaged over the noise.

    Args:
        samples: at least 1, or 2 if they are coupled.
        temperature: temperature of the softmax.
        draws: number of draws of the noise for each sample, K.
        coupling: an object of ``carms.couplings``, or the name of a copula.
    """

    def __init__(
        self,
        samples: int | None = None,
        temperature: float = 1.0,
        draws: int = 10,
        coupling: str | Coupling = "independent",
    ) -> None:
        super().__init__(samples, coupling)
        self.temperature = positive_number("temperature", temperature)
        self.draws = whole_number("draws", draws, least=1)

    def _averaged_slope(
        self, logits: Tensor, probs: Tensor, indices: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Zeros ``[N, *batch, D, C]`` whose derivative with respect to the logits is the slope of
        ``softmax((log probs + G) / temperature)``, averaged over draws of the Gumbel noise ``G``
        given that the categories ``indices [N, *batch, D]`` won.

        Args:
            logits: ``[*batch, D, C]``.
            probs: ``[*batch, D, C]``, or ``[N, *batch, D, C]`` where each sample has its own.
            indices: the samples.
            generator: source of the noise.
        """
        shape = self.draws, *indices.shape, probs.shape[-1]
        times = exponentials(shape, probs, generator, precise=False)
        noisy = perturbed_given(probs.log(), indices.expand(shape[:-1]), times)
        soft = softmax(noisy / self.temperature)
        return mean_softmax_slope(logits, soft) / self.temperature
