"""The one place where random numbers are drawn."""

from collections.abc import Sequence

import torch
from torch import Tensor

from carms.core.checks.tensors import check_generator, check_memory

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
    check_generator(generator, None if device is None else torch.device(device))
    if device is None:
        device = torch.get_default_device() if generator is None else generator.device
    dtype = dtype or torch.get_default_dtype()
    # What is made of them takes several tensors of their size.
    check_memory("random numbers", shape, 4 * dtype.itemsize, torch.device(device))
    if generator is not None:
        drawn = torch.rand(tuple(shape), generator=generator, dtype=dtype, device=device)
    elif dtype == torch.float64 and torch.compiler.is_compiling():
        # The `torch.rand` of the compiler has the 24 bits of single precision in any dtype.
        drawn = torch.randint(2**53, tuple(shape), device=device).to(dtype) * 2.0**-53
    else:
        # Not `generator=None`: the compiler has no such operation for sizes that vary.
        drawn = torch.rand(tuple(shape), dtype=dtype, device=device)
    # They may be 0, but never 1.
    return drawn.clamp_min_(torch.finfo(drawn.dtype).tiny)
