"""Estimators that draw hard samples first, independent or coupled."""

from abc import abstractmethod

import torch
from torch import Tensor

from carms.couplings import Coupling
from carms.couplings.names import make_coupling
from carms.estimators.families.relaxation import Relaxation, with_slope
from carms.sampling.independent import independent_samples

__all__ = ["HardSamples"]


class HardSamples(Relaxation):
    """Estimators whose gradient is a plain mean over hard samples.

    The expectation of a mean depends on the distribution of each sample alone. Coupled samples
    therefore leave it as it is, without any pair ratio, and usually lower the variance.

    Args:
        samples: at least 1, or 2 if they are coupled.
        coupling: an object of ``carms.couplings``, or the name of a copula.
    """

    def __init__(
        self, samples: int | None = None, coupling: str | Coupling = "independent"
    ) -> None:
        self._coupling, samples = make_coupling(coupling, samples)
        super().__init__(samples)
        self.coupling = coupling

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        if self._coupling is None:
            indices = independent_samples(probs, self.samples, generator)
        else:
            indices = self._coupling.sample_unchecked(probs, generator)
        return indices, with_slope(indices, self._slope(logits, probs, indices, generator))

    @abstractmethod
    def _slope(
        self, logits: Tensor, probs: Tensor, indices: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Zeros that broadcast to ``[N, *batch, D, C]``, whose derivative with respect to the
        logits is that which the samples are to have.

        Args:
            logits: ``[*batch, D, C]``.
            probs: their softmax, outside of the graph.
            indices: ``[N, *batch, D]``, the samples.
            generator: source of further noise.
        """
