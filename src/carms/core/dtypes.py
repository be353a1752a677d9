"""Which precision to compute in."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

__all__ = ["computing_dtype", "plain_numerics", "precise_dtype"]


def precise_dtype(device: torch.device | str | None) -> torch.dtype:
    """float64, except on devices that do not have it."""
    return torch.float32 if device and torch.device(device).type == "mps" else torch.float64


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: single precision for half, else the dtype itself."""
    return dtype if dtype.itemsize >= 4 else torch.float32


@contextmanager
def plain_numerics(like: Tensor) -> Iterator[None]:
    """Compute without a graph and without autocast: rounded weights would be biased."""
    device = like.device.type
    # Entering autocast takes longer than most operations, so only where there is one to leave.
    lowered = torch.is_autocast_enabled(device)
    with torch.no_grad(), torch.autocast(device, enabled=False) if lowered else nullcontext():
        yield
