"""Softmax along a short last dimension."""

from torch import Tensor

__all__ = ["log_softmax", "softmax"]

# Of many rows that are this short, torch takes the softmax several times faster along a leading
# dimension. That pays for one copy, and for two copies if the rows are very short.
_SHORT, _VERY_SHORT = 16, 7
_MANY = 1024


def softmax(logits: Tensor) -> Tensor:
    """``logits.softmax(-1)``, not necessarily contiguous."""
    if logits.shape[-1] > _SHORT or logits.numel() < _MANY:
        return logits.softmax(-1)
    return logits.movedim(-1, 0).contiguous().softmax(0).movedim(0, -1)


def log_softmax(logits: Tensor) -> Tensor:
    """``logits.log_softmax(-1)``."""
    if logits.shape[-1] > _VERY_SHORT or logits.numel() < _MANY:
        return logits.log_softmax(-1)
    return logits.movedim(-1, 0).contiguous().log_softmax(0).movedim(0, -1).contiguous()
