"""Whether a picture is whole."""

import zlib

__all__ = ["is_whole"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"


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
