"""Estimators that draw hard samples first, independent or coupled."""

import torch
from torch import Tensor

from carms.couplings import Coupling
from carms.couplings.names import make_coupling
from carms.estimators.families.relaxation import Relaxation
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
        made, samples = make_coupling(coupling, samples)
        super().__init__(samples)
        self.coupling = made

    def _indices(self, probs: Tensor, generator: torch.Generator | None) -> Tensor:
        """``[N, *batch, D]`` categories from ``probs [*batch, D, C]``."""
        if self.coupling is None:
            return independent_samples(probs, self.samples, generator)
        with torch.no_grad():
            return self.coupling.sample_unchecked(probs, generator)
