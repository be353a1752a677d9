"""Probabilities along the last dimension."""

from torch import Tensor

from carms.core.dtypes import precise_dtype

__all__ = ["log_softmax", "normalised", "softmax", "through_softmax"]

# For many rows that are this short, softmax along a leading dimension is many times faster, copies
# included.
_SHORT = 15
_MANY = 1024


def softmax(logits: Tensor) -> Tensor:
    """``logits.softmax(-1)``, not necessarily contiguous."""
    if _is_better_along_the_rows(logits):
        return logits.softmax(-1)
    return logits.movedim(-1, 0).contiguous().softmax(0).movedim(0, -1)


def log_softmax(logits: Tensor) -> Tensor:
    """``logits.log_softmax(-1)``."""
    if _is_better_along_the_rows(logits):
        return logits.log_softmax(-1)
    return logits.movedim(-1, 0).contiguous().log_softmax(0).movedim(0, -1).contiguous()


def normalised(probs: Tensor) -> Tensor:
    """Probabilities that add up to one in double precision."""
    wide = probs.to(precise_dtype(probs.device))
    return wide / wide.sum(-1, keepdim=True)


def through_softmax(probs: Tensor, slopes: Tensor) -> Tensor:
    """Slopes ``h [..., C]`` with respect to logits from those with respect to their softmax, which
    broadcasts to them: ``(diag(p) - p p^T) h``.
    """
    # What all slopes have in common cancels: that of the likeliest category is subtracted before
    # anything is rounded.
    likeliest = probs.argmax(-1, keepdim=True).expand(*slopes.shape[:-1], 1)
    slopes = slopes - slopes.gather(-1, likeliest)
    return probs * (slopes - (probs * slopes).sum(-1, keepdim=True))


def _is_better_along_the_rows(logits: Tensor) -> bool:
    return logits.shape[-1] > _SHORT or logits.numel() < _MANY
