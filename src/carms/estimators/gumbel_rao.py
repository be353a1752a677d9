"""Gumbel-Rao Monte Carlo."""

import torch
from torch import Tensor

from carms.couplings import Coupling
from carms.estimators.families.averaged_noise import AveragedNoise
from carms.estimators.registry import register

__all__ = ["GumbelRao"]


@register("gr-mc")
class GumbelRao(AveragedNoise):
    """Straight-through Gumbel-Softmax, averaged over the noise that gives the same sample.

    The slope of ``softmax((logits + noise) / temperature)`` is averaged over K draws of the noise
    given its arg max. The expectation is that of ``st-gumbel-softmax``, the variance less. Biased.
    N evaluations of a differentiable ``f``.

    Args:
        samples: number of samples, at least 1, or 2 if they are coupled. Defaults to 8, or to
            ``coupling.samples`` if a Coupling is given.
        temperature: of the softmax.
        draws: number of draws of the noise for each sample, K.
        coupling: ``"independent"``, the name of another copula such as ``"circular"``, or an object
            of ``carms.couplings``. Coupled samples leave the expectation as it is and lower the
            variance.

    References:
        Paulus, Maddison and Krause (2021) [paulus2021]

    Examples:
        >>> import carms
        >>> def variance(draws):
        ...     logits = torch.zeros(1000, 1, 2, requires_grad=True)
        ...     f = lambda z: z[..., 0, 1]
        ...     carms.expectation(f, logits, "gr-mc", samples=1, draws=draws).sum().backward()
        ...     return logits.grad.var(0).sum()
        >>> bool(variance(draws=100) < variance(draws=1) / 2)
        True
    """

    def __init__(
        self,
        samples: int | None = None,
        temperature: float = 0.5,
        draws: int = 10,
        coupling: str | Coupling = "independent",
    ) -> None:
        super().__init__(samples, temperature, draws, coupling)

    def _slope(
        self, logits: Tensor, probs: Tensor, indices: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        return self._averaged_slope(logits, probs, indices, generator)
