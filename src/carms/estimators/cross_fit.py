"""Scales of control variates, fitted without bias on other examples."""

from contextlib import suppress

import torch
from torch import Tensor

from carms.constants import constant
from carms.precision import precise_dtype

__all__ = ["Past", "cross_fit", "moments"]

# Strength of the two pulls below, as a number of examples.
_TO_ONE, _TO_COMMON = 1.0, 10.0
# Of a term so small against the base, as a share of its square, only rounding is left.
_NEGLIGIBLE = 1e-12
# Fewer past calls than these tell more noise than scales; of older ones, this share is kept.
_ENOUGH, _DECAY = 16, 0.99


class Past(torch.nn.Module):
    """Moments of past calls, which fit the scales of a single example where there is no batch.

    Args:
        terms: number of terms, K.
    """

    total: Tensor
    count: Tensor

    def __init__(self, terms: int) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(terms + 1, terms + 1))
        self.register_buffer("count", torch.zeros(()))

    def of(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of past moments and their number, as they are now, for ``probs [*batch, D, C]``;
        nothing where there is a batch, or hardly a past.
        """
        if _alone(probs) and self.count >= _ENOUGH:
            return self.total.clone().to(probs.device), self.count.clone().to(probs.device)
        return torch.zeros_like(self.total, device=probs.device), _zero(probs.device)

    def add(self, own: Tensor) -> None:
        """Let the ``moments`` of a call count for the next ones, in ``train()`` mode."""
        if not _alone(own) or not self.training or torch.compiler.is_compiling():
            return
        # The transforms of torch.func allow no memory.
        with suppress(RuntimeError):
            self.total.copy_(_DECAY * self.total + own.view(self.total.shape))
            self.count.copy_(_DECAY * self.count + 1)


def moments(base: Tensor, *terms: Tensor) -> Tensor:
    """Inner products ``[*batch, 1 + K, 1 + K]`` of an estimate and K terms of mean zero.

    Args:
        base: ``[*batch, D, C]``, the gradient of each example.
        terms: ``[*batch, D, C]`` each.
    """
    rows = torch.stack((base, *terms), -3).flatten(-2).to(precise_dtype(base.device))
    return rows @ rows.mT


def cross_fit(own: Tensor, past: Tensor, past_count: Tensor) -> Tensor:
    """Scales that let ``base + sum_k scale_k term_k`` vary the least.

    The scales of an example are fitted by least squares on all *other* examples, whose draws are
    independent of its own, and on past calls. So no scale depends on the draw that it multiplies,
    and nothing is biased. Few examples make a noisy fit: a common scale is pulled towards 1, and
    the scale of each term towards the common one. A single example without a past gets ones.

    Args:
        own: ``[*batch, 1 + K, 1 + K]``, the ``moments`` of each example.
        past: ``[1 + K, 1 + K]``, the sum of the moments of past calls.
        past_count: number of examples in that sum.

    Returns:
        ``[K, *batch]``.
    """
    flat = own.reshape(-1, *own.shape[-2:])
    others = (flat.sum(0) + past - flat).movedim(0, -1)
    # No others have no moments either: whatever their number, the pull is towards 1.
    count = (past_count + (len(flat) - 1)).clamp_min(1)
    # So that nothing is divided by zero, or by what rounding left of it.
    floor = others[0, 0] * _NEGLIGIBLE + torch.finfo(own.dtype).tiny
    gram, target = others[1:, 1:], -others[1:, 0]
    # The least squares of a single term, the sum of all.
    square = gram.sum((0, 1))
    pull = (square * (_TO_ONE / count)) + floor
    scales = ((target.sum(0) + pull) / (square + pull)).unsqueeze(0)
    if len(target) == 2:
        square = gram.diagonal().movedim(-1, 0)
        pull = (square * (_TO_COMMON / count)) + floor
        scales = _solve_two(square + pull, gram[0, 1], target + pull * scales)
    scales = scales.where(scales.isfinite(), 1)
    return scales.unflatten(1, own.shape[:-2]) if own.ndim > 2 else scales.squeeze(1)


def _alone(examples: Tensor) -> bool:
    """Whether ``[*batch, a, b]`` is a single example, without others to learn from."""
    return examples.shape[:-2].numel() == 1


@constant
def _zero(device: torch.device) -> Tensor:
    return torch.zeros((), device=device)


def _solve_two(diagonal: Tensor, mixed: Tensor, target: Tensor) -> Tensor:
    """The solutions ``[2, E]`` of symmetric systems by Cramer's rule."""
    determinant = diagonal[0] * diagonal[1] - mixed.square()
    return (diagonal.flip(0) * target - mixed * target.flip(0)) / determinant
