"""Let glibc keep freed memory for reuse."""

import torch

__all__ = ["keep_freed_memory"]

# glibc adapts to blocks of up to 32 MiB.
_BLOCK = 31 << 20


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory: returned to the system, it has to be faulted in at each step.

    glibc returns what is freed beyond twice the largest block that was ever freed, up to some
    limit. So one large block is enough, which is never touched and costs nothing. Elsewhere this
    has no effect.
    """
    torch.empty(_BLOCK, dtype=torch.uint8, device="cpu")
