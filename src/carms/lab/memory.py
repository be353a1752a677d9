"""How the process uses its memory."""

import ctypes
import sys

__all__ = ["keep_freed_memory"]


def keep_freed_memory() -> None:
    """Tell glibc not to hand freed memory back: every step would fault it in again."""
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3
        for option in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(option, 1 << 30)
