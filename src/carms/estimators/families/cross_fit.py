"""Scales of control variates, fitted without bias on other examples."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from carms.core.dtypes import precise_dtype
from carms.core.warn import warn_user

__all__ = ["Past", "cross_fit", "moments"]

# Strength of the pulls towards 1 and towards the common scale, as a number of examples.
_TO_ONE, _TO_COMMON = 1.0, 10.0
# A term whose square is below this share of that of the base is nothing but rounding.
_NEGLIGIBLE = 1e-12
# No scale is beyond these: among examples that are nearly decided a rare draw would make it huge.
_LEAST, _MOST = -1.0, 2.0
# Fewer past calls than this tell more noise than scales; each call keeps this share of the past.
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

    def recall(self, examples: Tensor) -> Tensor:
        """Return the sum of the moments of past calls for examples ``[*batch, D, C]``: zeros if
        there were too few calls, and an empty tensor if there is a batch.
        """
        if not _alone(examples):
            return examples.new_zeros(0)
        # Without a look at the count, on which a compiled graph must not depend.
        return torch.where(self.count < _ENOUGH, 0, self.total).to(examples.device)

    def warn_if_blind(self, estimator: object, examples: Tensor) -> None:
        """Warn where scales of examples ``[*batch, D, C]`` can be fitted neither now nor later."""
        if self.training or not _alone(examples) or torch.compiler.is_compiling():
            return
        if self.count < _ENOUGH:
            warn_user(
                f"{estimator} cannot learn from a single example, called by name or in eval() "
                "mode, how far to trust the slopes of f: where they mislead, its variance is "
                "large. Make it once and keep it in train() mode",
            )

    def add(self, own: Tensor) -> None:
        """Add the ``moments`` of a single example to those of past calls, in ``train()`` mode."""
        if not _alone(own) or not self.training:
            return
        # Calls of any size count alike, and none overflows a buffer in half precision.
        size = own.diagonal(dim1=-2, dim2=-1).sum().clamp_min(torch.finfo(own.dtype).tiny)
        share = own.view(self.total.shape) / size
        self.total.copy_(_DECAY * self.total + share.to(self.total))
        self.count.copy_(_DECAY * self.count + 1)

    def combine(self, base: Tensor, terms: list[Tensor], before: Tensor) -> tuple[Tensor, Tensor]:
        """``base + sum_k scale_k term_k`` with the scales of ``cross_fit``, ``[*batch, D, C]``,
        and the moments to ``add`` once the backward pass has come.

        Args:
            base: ``[*batch, D, C]``, the gradient of each example.
            terms: K tensors ``[*batch, D, C]`` of mean zero.
            before: what ``recall`` returned before the draw.
        """
        rows = torch.stack((base, *terms), -3).flatten(-2).to(precise_dtype(base.device))
        own = moments(rows)
        scales = pad(cross_fit(own, before), (1, 0), value=1.0)
        return (scales.unsqueeze(-2) @ rows).view(base.shape).to(base.dtype), own


def moments(rows: Tensor) -> Tensor:
    """Inner products ``[*batch, 1 + K, 1 + K]`` of an estimate and K terms of mean zero.

    Args:
        rows: ``[*batch, 1 + K, V]``, the gradient of each example and its terms.
    """
    return rows @ rows.mT


def cross_fit(own: Tensor, past: Tensor | None = None) -> Tensor:
    """Scales that let ``base + sum_k scale_k term_k`` vary the least.

    The scales of an example are fitted by least squares on all *other* examples, whose draws are
    independent of its own, and on past calls. So no scale depends on the draw that it multiplies,
    and nothing is biased. Few examples make a noisy fit: a common scale is pulled towards 1, and
    the scale of each term towards the common one. Limits keep a rare draw of one example from
    spoiling another; they depend on no draw. A single example without a past, or with one of
    zeros, gets ones.

    Args:
        own: ``[*batch, 1 + K, 1 + K]``, the ``moments`` of each example; K is 1 or 2.
        past: ``[1 + K, 1 + K]``, the sum of the moments of past calls; none, or empty.

    Returns:
        ``[*batch, K]``.
    """
    others = _of_others(own)
    count = max(1, own.shape[:-2].numel() - 1)
    if past is not None and past.numel():
        # The past counts as this number of examples.
        others, count = others + past, _ENOUGH
    first = others[..., 0, :]
    target, products = first[..., 1:], others[..., 1:, 1:]
    # Keeps denominators away from zero, and from what rounding left of it.
    floor = first[..., :1] * _NEGLIGIBLE + torch.finfo(own.dtype).tiny
    # Least squares of the common scale, that of the sum of all terms, pulled towards 1.
    square = products.sum((-2, -1)).unsqueeze(-1)
    pull = torch.add(floor, square, alpha=_TO_ONE / count)
    scales = (pull - target.sum(-1, keepdim=True)) / square.add_(pull)
    if target.shape[-1] == 2:
        # Least squares of each scale, pulled towards the common one, by Cramer's rule.
        squares, mixed = products.diagonal(dim1=-2, dim2=-1), products[..., :1, 1]
        pull = torch.add(floor, squares, alpha=_TO_COMMON / count)
        squares, right = squares + pull, (pull * scales).sub_(target)
        determinant = squares.prod(-1, keepdim=True) - mixed.square()
        scales = (squares.flip(-1) * right - mixed * right.flip(-1)) / determinant
    return torch.nan_to_num(scales, 1, 1, 1).clamp(_LEAST, _MOST)


def _of_others(own: Tensor) -> Tensor:
    """The sums ``[*batch, a, b]`` over all other examples of ``own [*batch, a, b]``.

    Not the sum of all less an example's own: where that is by far the largest, the difference is
    nothing but what rounding left of it.
    """
    if own.shape[:-2].numel() < 2:
        return torch.zeros_like(own)
    flat = own.flatten(0, -3)
    before = pad(flat[:-1].cumsum(0), (0, 0, 0, 0, 1, 0))
    after = pad(flat[1:].flip(0).cumsum(0).flip(0), (0, 0, 0, 0, 0, 1))
    return (before + after).view(own.shape)


def _alone(examples: Tensor) -> bool:
    """Whether ``[*batch, a, b]`` is a single example, without others to learn from."""
    return examples.shape[:-2].numel() == 1
