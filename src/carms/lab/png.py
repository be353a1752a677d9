"""Pictures that are whole."""

import zlib
from pathlib import Path

from carms.lab.reading import read_bounded

__all__ = ["read_png"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read_png(path: Path, limit: int) -> bytes | None:
    """Read a PNG of at most ``limit`` bytes; None if there is none, or none that is whole."""
    try:
        data = read_bounded(path, limit)
    except (OSError, ValueError):
        return None
    return data if _is_whole(data) else None


def _is_whole(data: bytes) -> bool:
    """Whether the chunks of a PNG, each with its checksum, are all there and nothing else is."""
    place, kind = len(SIGNATURE), b""
    if not data.startswith(SIGNATURE):
        return False
    while kind != b"IEND":
        length = int.from_bytes(data[place : place + 4], "big")
        start, end = place + 4, place + 8 + length
        kind, place = data[start : start + 4], end + 4
        if data[end:place] != zlib.crc32(data[start:end]).to_bytes(4, "big"):
            return False
    return place == len(data)
