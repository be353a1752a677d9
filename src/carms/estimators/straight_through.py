"""The straight-through estimator."""

import torch
from torch import Tensor

from carms.estimators.families.hard_samples import HardSamples
from carms.estimators.families.softmax_slope import softmax_slope
from carms.estimators.registry import register

__all__ = ["StraightThrough"]


@register("straight-through")
class StraightThrough(HardSamples):
    """Use the hard sample, and in the backward pass pretend that it was the vector p.

    ``z + p - stop(p)``: the gradient is ``(diag(p) - p p^T)`` times that of ``f`` at the sample.
    Biased; exact where ``f`` is linear in each variable. N evaluations of a differentiable ``f``.

    Args:
        samples: number of samples, at least 1, or 2 if they are coupled. Defaults to 8, or to
            ``coupling.samples`` if a Coupling is given.
        coupling: ``"independent"``, the name of another copula such as ``"circular"``, or an object
            of ``carms.couplings``. Coupled samples leave the expectation as it is and lower the
            variance.

    References:
        Bengio, Leonard and Courville (2013) [bengio2013]

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> value = carms.expectation(lambda z: z[..., 0, 1], logits, "straight-through", samples=1)
        >>> torch.autograd.grad(value, logits)[0]  # of a linear f it is exact
        tensor([[-0.1966,  0.1966]])
    """

    def _slope(
        self, logits: Tensor, probs: Tensor, indices: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        return softmax_slope(logits, probs)
