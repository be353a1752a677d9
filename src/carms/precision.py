"""Which precision to compute in."""

import torch

__all__ = ["computing_dtype", "precise_dtype"]


def precise_dtype(device: torch.device | str | None) -> torch.dtype:
    """float64, except on devices that do not have it."""
    return torch.float32 if device and torch.device(device).type == "mps" else torch.float64


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision is computed in single."""
    return dtype if dtype.itemsize >= 4 else torch.float32
