"""The straight-through estimator, and the tool of all of its kin."""

import torch
from torch import Tensor

from carms.core.surrogate import zeros_with_gradient_of
from carms.estimators.families.hard_samples import HardSamples
from carms.estimators.registry import register

__all__ = ["StraightThrough", "softmax_slope"]


def softmax_slope(logits: Tensor, probs: Tensor) -> Tensor:
    """Zeros ``[..., C]`` whose derivative with respect to the logits is that of a softmax at the
    point where it is ``probs``: ``diag(probs) - probs probs^T``.
    """
    probs = probs.detach()
    exists = torch.where(probs > 0, logits, 0)
    line = probs * (exists - (probs * exists).sum(-1, keepdim=True))
    return zeros_with_gradient_of(line)


@register("straight-through")
class StraightThrough(HardSamples):
    """Use the hard sample, and in the backward pass pretend that it was the vector p.

    ``z + p - stop(p)``: the gradient is ``(diag(p) - p p^T)`` times that of ``f`` at the sample.
    Biased; exact where ``f`` is linear in each variable. N evaluations of a differentiable ``f``.

    Args:
        samples: at least 1, or 2 if they are coupled. Defaults to 8, or to ``coupling.samples`` if
            a Coupling is given.
        coupling: ``"independent"``, the name of another copula such as ``"circular"``, or an object
            of ``carms.couplings``. Coupled samples leave the expectation as it is and lower the
            variance.

    References:
        Y. Bengio, N. Leonard, A. Courville (2013), Estimating or propagating gradients through
        stochastic neurons for conditional computation, arXiv:1308.3432.
    """

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        return self._indices(probs, generator), softmax_slope(logits, probs)
