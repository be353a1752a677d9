"""Read a picture back, if it is whole."""

import zlib
from pathlib import Path

from carms.lab.runs.reading import read_bounded

__all__ = ["is_whole", "read_picture"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Bytes of a picture of a run.
LIMIT = 500_000


def read_picture(path: Path) -> bytes | None:
    """The contents of a PNG that is whole; None if there is no such file."""
    try:
        contents = read_bounded(path, LIMIT)
    except (OSError, ValueError):
        return None
    return contents if is_whole(contents) else None


def is_whole(data: bytes) -> bool:
    """Whether the chunks of a PNG, each with its checksum, are all there and nothing else is."""
    if not data.startswith(SIGNATURE):
        return False
    place, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        length = int.from_bytes(data[place : place + 4], "big")
        start, end = place + 4, place + 8 + length
        kind, place = data[start : start + 4], end + 4
        if data[end:place] != zlib.crc32(data[start:end]).to_bytes(4, "big"):
            return False
    return place == len(data)
