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
        drawn = torch.rand(tuple(shape), dtype=dtype, device=device)
    elif isinstance(generator, torch.Generator):
        device = generator.device if device is None else device
        drawn = torch.rand(tuple(shape), generator=generator, dtype=dtype, device=device)
    else:
        raise TypeError(f"generator must be a torch.Generator, got {generator!r}")
    # They are less than one as they come.
    return drawn.clamp_min_(torch.finfo(drawn.dtype).tiny)
