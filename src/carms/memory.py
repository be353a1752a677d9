"""How the process uses its memory."""

import math
import os
from collections.abc import Sequence
from functools import lru_cache

import torch

__all__ = ["check_memory", "keep_freed_memory"]

# glibc adapts to blocks of up to 32 MiB.
_BLOCK = 31 << 20

# Of devices that do not tell how much memory they have.
_UNKNOWN = 1 << 40


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory: returned to the system, it has to be faulted in at each step.

    glibc returns what is freed beyond twice the largest block that was ever freed, up to some
    limit. So one large block is enough, which is never touched and costs nothing. Elsewhere this
    has no effect.
    """
    torch.empty(_BLOCK, dtype=torch.uint8, device="cpu")


def check_memory(what: str, shape: Sequence[int], itemsize: int, device: torch.device) -> None:
    """Raise before a tensor is made that does not fit into the memory of its device.

    Args:
        what: the tensor, in the plural.
        shape: its shape.
        itemsize: bytes for each of its numbers, those of its copies among them.
        device: where it is to be.
    """
    if torch.compiler.is_compiling():  # sizes may not be known
        return
    # There may be something for each sample even where the batch is empty.
    needed = itemsize * math.prod(max(1, size) for size in shape)
    there = _memory_of(device.type)
    if needed > there:
        raise ValueError(
            f"{what} of shape {list(shape)} would take at least {needed / 1e9:,.0f} GB of memory, "
            f"but {device.type} has {there / 1e9:,.0f} GB: use fewer samples or a smaller batch"
        )


@lru_cache
def _memory_of(device: str) -> int:
    """All the memory of the first device of a type, in bytes."""
    if device == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    if device != "cpu" or not hasattr(os, "sysconf"):
        return _UNKNOWN
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
