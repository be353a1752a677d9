"""The precision in which to compute."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

__all__ = ["computing_dtype", "plain_numerics", "precise_dtype", "without_autocast"]


def precise_dtype(device: torch.device | str | None) -> torch.dtype:
    """float64, except on devices that do not have it."""
    return torch.float32 if device and torch.device(device).type == "mps" else torch.float64


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself, or single precision for half precision."""
    return dtype if dtype.itemsize >= 4 else torch.float32


def without_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """Compute in the precision of the tensors, whatever autocast says."""
    device = like.device.type
    # Entering autocast takes longer than most operations, so only where there is one to leave.
    return (
        torch.autocast(device, enabled=False)
        if torch.is_autocast_enabled(device)
        else nullcontext()
    )


def plain_numerics(like: Tensor) -> AbstractContextManager[Any]:
    """Compute outside the graph, and not under autocast: rounded weights would be biased."""
    return _plain(like) if torch.is_autocast_enabled(like.device.type) else torch.no_grad()


@contextmanager
def _plain(like: Tensor) -> Iterator[None]:
    with torch.no_grad(), without_autocast(like):
        yield
