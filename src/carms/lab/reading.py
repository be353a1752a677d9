"""Read files that others may have written."""

import os
import stat
from pathlib import Path

__all__ = ["read_bounded"]


def read_bounded(path: Path, limit: int) -> bytes:
    """The contents of a regular file of at most ``limit`` bytes.

    Links are not followed, and nothing waits for the other end of a pipe.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if found.st_size > limit:
            raise ValueError(f"{path} has {found.st_size:,} bytes, more than {limit:,}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
