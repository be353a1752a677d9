"""Write files so that a reader finds all of a file or nothing."""

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = [
    "as_json",
    "check_folder",
    "check_writable",
    "open_no_link",
    "write_atomically",
    "write_json",
]


def write_atomically(path: Path, data: bytes) -> None:
    """Write all of a file or nothing; it is on disk when this returns. A link is replaced."""
    # With a name that they share, one writer would publish the unfinished file of another; on a
    # shared disk the number of a process is no name of its own.
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    try:
        # A file that is made anew is nobody's link.
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def check_writable(path: Path) -> None:
    """Raise if a file cannot be written, so that this is known before the work and not after it.

    Nothing is made for that: directories that are missing are made by the writer.
    """
    if path.name in ("", "..") or path.is_dir():
        raise ValueError(f"out must name a file to write, got the directory {str(path)!r}")
    check_folder(path.absolute().parent, path)


def check_folder(folder: Path, what: Path | None = None) -> None:
    """Raise if nothing can be written into a folder, which need not be there yet.

    Args:
        folder: the folder.
        what: what the error calls it, if that is not the folder itself.
    """
    absolute = folder.absolute()
    nearest = next(each for each in (absolute, *absolute.parents) if os.path.lexists(each))
    if not nearest.is_dir():
        raise ValueError(f"cannot write {what or folder}: {nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write {what or folder}: no permission to write into {nearest}")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file of JSON atomically."""
    write_atomically(path, as_json(data))


def as_json(data: Mapping[str, Any]) -> bytes:
    """The contents of a file of JSON; an error for a number that is not finite."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def open_no_link(path: str, flags: int) -> int:
    """Open a file as ``open`` asks for it, but follow no link: the ``opener`` of ``open``."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
