"""The slope of a softmax, which straight-through and its relatives use in the backward pass."""

import torch
from torch import Tensor

from carms.core.one_hot import one_hot
from carms.core.surrogate import zeros_with_gradient_of

__all__ = ["mean_softmax_slope", "midpoint", "softmax_slope"]


def softmax_slope(logits: Tensor, probs: Tensor) -> Tensor:
    """Zeros ``[..., C]`` whose derivative with respect to the logits is that of a softmax at the
    point where it is ``probs [..., C]``: ``diag(probs) - probs probs^T``.

    Examples:
        >>> logits = torch.zeros(2, requires_grad=True)
        >>> zeros = softmax_slope(logits, torch.tensor([0.5, 0.5]))
        >>> (zeros * torch.tensor([4.0, 0.0])).sum().backward()
        >>> zeros.tolist(), logits.grad
        ([0.0, 0.0], tensor([ 1., -1.]))
    """
    probs, zeros = probs.detach(), _zeros(logits)
    return probs * (zeros - (probs * zeros).sum(-1, keepdim=True))


def mean_softmax_slope(logits: Tensor, probs: Tensor) -> Tensor:
    """Zeros ``[..., C]`` whose derivative is the mean of those of ``softmax_slope`` at K points
    ``[K, ..., C]``.
    """
    probs, zeros = probs.detach(), _zeros(logits)
    along = (probs * zeros).sum(-1, keepdim=True)
    return probs.mean(0) * zeros - (probs * along).mean(0)


def midpoint(indices: Tensor, probs: Tensor) -> Tensor:
    """``[N, *batch, D, C]``: half way from ``probs [*batch, D, C]`` to the one-hot samples."""
    return (one_hot(indices, probs.shape[-1], probs.dtype) + probs) / 2


def _zeros(logits: Tensor) -> Tensor:
    """Zeros with the gradient of the logits, or of nothing where a category does not exist."""
    return torch.where(logits.isneginf(), 0, zeros_with_gradient_of(logits))
