"""The slope of a softmax, which straight-through and its relatives use in the backward pass."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.softmax import softmax
from carms.core.surrogate import zeros_with_gradient_of
from carms.sampling.gumbel import exponentials, perturbed_given

__all__ = ["Noise", "averaged_slope", "midpoint", "softmax_slope"]


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


def midpoint(indices: Tensor, probs: Tensor) -> Tensor:
    """``[N, *batch, D, C]``: half way from ``probs [*batch, D, C]`` to the one-hot samples."""
    categories = torch.arange(probs.shape[-1], device=probs.device)
    return ((indices.unsqueeze(-1) == categories).to(probs.dtype) + probs) / 2


class Noise(NamedTuple):
    """How to draw the Gumbel noise, and the temperature of the softmax over it."""

    temperature: float
    draws: int
    generator: torch.Generator | None


def averaged_slope(logits: Tensor, probs: Tensor, indices: Tensor, noise: Noise) -> Tensor:
    """Zeros ``[N, *batch, D, C]`` whose derivative with respect to the logits is the slope of
    ``softmax((log probs + G) / temperature)``, averaged over draws of the Gumbel noise ``G`` given
    that the categories ``indices [N, *batch, D]`` won.

    Args:
        logits: ``[*batch, D, C]``.
        probs: ``[*batch, D, C]``, or ``[N, *batch, D, C]`` where each sample has its own.
        indices: the samples.
        noise: how to draw it.
    """
    shape = noise.draws, *indices.shape, probs.shape[-1]
    times = exponentials(shape, probs, noise.generator, precise=False)
    noisy = perturbed_given(probs.log(), indices.expand(shape[:-1]), times)
    soft = softmax(noisy / noise.temperature)
    return _mean_softmax_slope(logits, soft) / noise.temperature


def _mean_softmax_slope(logits: Tensor, probs: Tensor) -> Tensor:
    """Zeros ``[..., C]`` whose derivative is the mean of those at K points ``[K, ..., C]``."""
    probs, zeros = probs.detach(), _zeros(logits)
    along = (probs * zeros).sum(-1, keepdim=True)
    return probs.mean(0) * zeros - (probs * along).mean(0)


def _zeros(logits: Tensor) -> Tensor:
    """Zeros with the gradient of the logits, or of nothing where a category does not exist."""
    return torch.where(logits.isneginf(), 0, zeros_with_gradient_of(logits))
