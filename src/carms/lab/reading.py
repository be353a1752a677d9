"""Read files that anybody may have put there."""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["open_regular", "parse_object", "read_bounded", "read_object"]

# Bytes of a file that holds one JSON object.
OBJECT = 1 << 20


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file: no symbolic link, and nothing that blocks or never ends."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{path} is not a regular file")
    return os.fdopen(handle, "rb")


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(f"{path} has {size:,} bytes, more than {limit:,}")
        return file.read(size)


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    return parse_object(read_bounded(path, OBJECT))


def parse_object(text: bytes) -> dict[str, Any]:
    """Make a dictionary of the text of a JSON object."""
    try:
        found = json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found
