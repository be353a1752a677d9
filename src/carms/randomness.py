"""The one place where random numbers are drawn."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["inside_unit_interval", "uniform"]


def inside_unit_interval(u: Tensor) -> Tensor:
    """Move the values that rounding put on 0 or 1 to their neighbours inside (0, 1)."""
    info = torch.finfo(u.dtype)
    return u.clamp(info.tiny, 1 - info.eps / 2)


def uniform(
    shape: Sequence[int],
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Independent uniforms, strictly inside (0, 1)."""
    if device is None and generator is not None:
        device = generator.device
    return inside_unit_interval(
        torch.rand(tuple(shape), generator=generator, dtype=dtype, device=device)
    )
