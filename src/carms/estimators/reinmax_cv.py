"""ReinMax-CV."""

import torch
from torch import Tensor

from carms.core.checks.options import real_number
from carms.couplings import Coupling
from carms.estimators.families.averaged_noise import AveragedNoise
from carms.estimators.families.softmax_slope import midpoint, softmax_slope
from carms.estimators.registry import register

__all__ = ["ReinMaxCV"]


@register("reinmax-cv")
class ReinMaxCV(AveragedNoise):
    """ReinMax moved towards ReinMax-Rao by the difference of two slopes at the midpoint.

    The slope is ``2 J(m) - J(p) / 2 + scale (R(m) - J(m) / temperature)``: that of ReinMax, less a
    control variate ``J(m) / temperature``, plus the averaged slope ``R(m)`` of ``reinmax-rao`` in
    the place of its mean. The two agree only roughly, so the bias is not that of ReinMax. A
    ``scale`` of 0 is ReinMax, and of 2 at temperature 1 ReinMax-Rao. Biased. N evaluations of a
    differentiable ``f``.

    This is the estimator of the authors' public code.
    Others cite its equation with one draw of the noisy slope as the control variate. Given the
    sample, on which alone ReinMax depends, such a draw is pure noise, and the variance would rise.

    Args:
        samples: number of samples, at least 1, or 2 if they are coupled. Defaults to 8, or to
            ``coupling.samples`` if a Coupling is given.
        temperature: of the softmax in ``R``; the paper tunes it.
        draws: number of draws of the noise for each sample, K.
        scale: of the control variate.
        coupling: ``"independent"``, the name of another copula such as ``"circular"``, or an object
            of ``carms.couplings``. Coupled samples leave the expectation as it is and lower the
            variance.

    References:
        Wang and Bui (2026) [wang2026]

    Examples:
        >>> import carms
        >>> logits = torch.zeros(2, 3, requires_grad=True)
        >>> gradients = []
        >>> for estimator in (carms.make("reinmax-cv", scale=0.0), carms.make("reinmax")):
        ...     source = torch.Generator().manual_seed(0)
        ...     value = estimator.expectation(lambda z: z[..., 0].prod(-1), logits, source)
        ...     gradients += torch.autograd.grad(value, logits)
        >>> torch.testing.assert_close(*gradients)
    """

    def __init__(
        self,
        samples: int | None = None,
        temperature: float = 1.0,
        draws: int = 10,
        scale: float = 1.5,
        coupling: str | Coupling = "independent",
    ) -> None:
        super().__init__(samples, temperature, draws, coupling)
        self.scale = real_number("scale", scale)

    def _slope(
        self, logits: Tensor, probs: Tensor, indices: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        middle = midpoint(indices, probs)
        averaged = self._averaged_slope(logits, middle, indices, generator)
        own_share = 2 - self.scale / self.temperature
        slope = own_share * softmax_slope(logits, middle) - softmax_slope(logits, probs) / 2
        return slope + self.scale * averaged
