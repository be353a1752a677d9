"""Data sets of a few images of two by two pixels, as files."""

import gzip
import hashlib
import io
import struct

import numpy as np
import scipy.io

from carms.lab.data.sources import Sum

SIDE = 2


def pixels(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE * SIDE), dtype=np.uint8)


def idx(images):
    return struct.pack(">4I", 0x803, len(images), SIDE, SIDE) + images.tobytes()


def amat(images):
    return "".join(" ".join(str(bit) for bit in row) + "\n" for row in images).encode()


def mat(**variables):
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, do_compression=True)
    return stream.getvalue()


def put(path, contents, pack=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(contents) if pack else contents)
    return path


def flipped(contents):
    return contents[:-1] + bytes([contents[-1] ^ 1])


def sum_of(contents):
    return Sum(len(contents), hashlib.sha256(contents).hexdigest())


TRAIN, TEST = pixels(5), pixels(3, seed=1)


TINY = {
    "train-images-idx3-ubyte.gz": gzip.compress(idx(TRAIN)),
    "t10k-images-idx3-ubyte.gz": gzip.compress(idx(TEST)),
}


def names_below(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())
