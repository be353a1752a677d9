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
    if generator is None:
        # Not `generator=None`: the compiler has no such operation for sizes that vary.
        return inside_unit_interval(torch.rand(tuple(shape), dtype=dtype, device=device))
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {generator!r}")
    device = generator.device if device is None else device
    return inside_unit_interval(
        torch.rand(tuple(shape), generator=generator, dtype=dtype, device=device)
    )
