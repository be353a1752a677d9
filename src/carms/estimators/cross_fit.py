"""Scales of control variates, fitted without bias on other examples."""

import torch
from torch import Tensor

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

    def of(self, probs: Tensor) -> Tensor:
        """The sum of past moments as it is now, for ``probs [*batch, D, C]``; empty where there is
        a batch, or hardly a past.
        """
        compiling = torch.compiler.is_compiling()  # which must not depend on the count
        if not _alone(probs) or compiling or self.count < _ENOUGH:
            return probs.new_zeros(0)
        return self.total.clone().to(probs.device)

    def add(self, own: Tensor) -> None:
        """Let the ``moments`` of a call count for the next ones, in ``train()`` mode."""
        if not _alone(own) or not self.training or torch.compiler.is_compiling():
            return
        # Calls of any size count alike, and none overflows a buffer in half precision.
        share = own.view(self.total.shape) / own.diagonal(dim1=-2, dim2=-1).sum().clamp_min(1e-300)
        try:
            self.total.copy_(_DECAY * self.total + share.to(self.total))
        except RuntimeError as error:
            # The transforms of torch.func allow no memory.
            if "captured" in str(error) or "vmap" in str(error):
                return
            raise
        self.count.copy_(_DECAY * self.count + 1)


def moments(base: Tensor, *terms: Tensor) -> Tensor:
    """Inner products ``[*batch, 1 + K, 1 + K]`` of an estimate and K terms of mean zero.

    Args:
        base: ``[*batch, D, C]``, the gradient of each example.
        terms: ``[*batch, D, C]`` each.
    """
    rows = torch.stack((base, *terms), -3).flatten(-2).to(precise_dtype(base.device))
    return rows @ rows.mT


def cross_fit(own: Tensor, past: Tensor | None = None) -> list[Tensor]:
    """Scales that let ``base + sum_k scale_k term_k`` vary the least.

    The scales of an example are fitted by least squares on all *other* examples, whose draws are
    independent of its own, and on past calls. So no scale depends on the draw that it multiplies,
    and nothing is biased. Few examples make a noisy fit: a common scale is pulled towards 1, and
    the scale of each term towards the common one. A single example without a past gets ones.

    Args:
        own: ``[*batch, 1 + K, 1 + K]``, the ``moments`` of each example; K is 1 or 2.
        past: ``[1 + K, 1 + K]``, the sum of the moments of past calls; none, or empty.

    Returns:
        K tensors ``[*batch]``.
    """
    others = own.flatten(0, -3).sum(0) - own if own.ndim > 2 else torch.zeros_like(own)
    count = max(1, own.shape[:-2].numel() - 1)
    if past is not None and past.numel():
        # The past counts as so many examples.
        others, count = others + past, _ENOUGH
    # So that nothing is divided by zero, or by what rounding left of it.
    floor = others[..., 0, 0] * _NEGLIGIBLE + torch.finfo(own.dtype).tiny
    square, target = others[..., 1, 1], others[..., 0, 1]
    if own.shape[-1] == 2:
        scales = [_ratio(square, target, floor, count)]
    else:
        mixed, other_square = others[..., 1, 2], others[..., 2, 2]
        other_target = others[..., 0, 2]
        # The least squares of a single term, the sum of both.
        both = square + other_square + 2 * mixed
        common = _ratio(both, target + other_target, floor, count)
        # And of each, by Cramer's rule.
        first, second = (
            torch.add(floor, each, alpha=1 + _TO_COMMON / count) for each in (square, other_square)
        )
        right, other_right = (
            (each * (_TO_COMMON / count) + floor) * common - towards
            for each, towards in ((square, target), (other_square, other_target))
        )
        determinant = first * second - mixed.square()
        scales = [
            (second * right - mixed * other_right) / determinant,
            (first * other_right - mixed * right) / determinant,
        ]
    return [torch.nan_to_num(scale, 1, 1, 1) for scale in scales]


def _ratio(square: Tensor, target: Tensor, floor: Tensor, count: int) -> Tensor:
    """The least squares of one term, pulled towards 1."""
    pull = torch.add(floor, square, alpha=_TO_ONE / count)
    return (pull - target) / (square + pull)


def _alone(examples: Tensor) -> bool:
    """Whether ``[*batch, a, b]`` is a single example, without others to learn from."""
    return examples.shape[:-2].numel() == 1
