"""The straight-through estimator, and the tool of all of its kin."""

import torch
from torch import Tensor

from carms.estimators.drawing import independent_samples
from carms.estimators.reparameterised import Reparameterised

__all__ = ["StraightThrough", "softmax_slope"]


def softmax_slope(logits: Tensor, probs: Tensor) -> Tensor:
    """Zeros ``[..., C]`` whose derivative with respect to the logits is that of a softmax at the
    point where it is ``probs``: ``diag(probs) - probs probs^T``.
    """
    probs = probs.detach()
    exists = torch.where(probs > 0, logits, 0)
    line = probs * (exists - (probs * exists).sum(-1, keepdim=True))
    return line - line.detach()


class StraightThrough(Reparameterised):
    """Use the hard sample, and in the backward pass pretend that it was the vector p.

    ``z + p - stop(p)``: the gradient is ``(diag(p) - p p^T)`` times that of ``f`` at the sample.
    Biased; exact where ``f`` is linear in each variable. N evaluations of a differentiable ``f``.

    Args:
        samples: at least 1.

    References:
        Y. Bengio, N. Leonard, A. Courville (2013), Estimating or propagating gradients through
        stochastic neurons for conditional computation, arXiv:1308.3432.
    """

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        indices = independent_samples(probs, self.samples, generator)
        return indices, softmax_slope(logits, probs)
