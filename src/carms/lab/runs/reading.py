"""Read files that others may have written."""

import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

__all__ = [
    "OBJECT_LIMIT",
    "open_regular",
    "parse_json",
    "parse_object",
    "read_bounded",
    "read_if_there",
    "read_object",
]

# The largest file, in bytes, that is read as one JSON object.
OBJECT_LIMIT = 1 << 20


def open_regular(path: Path, limit: int) -> BufferedReader:
    """Open a regular file of at most ``limit`` bytes.

    Links are not followed, and nothing waits for the other end of a pipe.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if found.st_size > limit:
            raise ValueError(f"{path} has {found.st_size:,} bytes, more than {limit:,}")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bounded(path: Path, limit: int) -> bytes:
    """The contents of a regular file of at most ``limit`` bytes."""
    with open_regular(path, limit) as file:
        # Not ``limit`` itself, for which memory would be reserved.
        return file.read(os.fstat(file.fileno()).st_size)


def read_if_there(path: Path, limit: int) -> bytes | None:
    """The contents of a file; None if there is no file, an error that names it otherwise."""
    try:
        return read_bounded(path, limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(error.errno, f"cannot read {path}: {error.strerror}") from error


def parse_json(text: bytes) -> Any:
    """Make an object of its text in JSON."""
    try:
        return json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_object(text: bytes) -> dict[str, Any]:
    """Make a dictionary of the text of a JSON object."""
    found = parse_json(text)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object of a file; None if there is no file, an error that names it otherwise."""
    data = read_if_there(path, OBJECT_LIMIT)
    if data is None:
        return None
    try:
        return parse_object(data)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
