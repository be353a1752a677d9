"""Files that are missing, damaged, or something else."""

import gzip
import os
import tracemalloc

import numpy as np
import pytest
from tiny import TINY, TRAIN, flipped, idx, mat, put

from carms.lab.data import formats
from carms.lab.data.datasets import load, verify
from carms.lab.data.formats import read_amat, read_idx, read_mat
from carms.lab.data.missing import MissingData


def test_missing_files_are_all_named_with_what_to_do(tiny_mnist, tmp_path):
    put(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", TINY["t10k-images-idx3-ubyte.gz"])
    with pytest.raises(FileNotFoundError) as caught:
        load("dynamic-mnist", tmp_path)
    assert caught.type is MissingData
    message = str(caught.value)
    train = tmp_path / "mnist" / "train-images-idx3-ubyte"
    assert f"  {train}.gz\n  {train}\n" in message
    assert "t10k" not in message
    for advice in ("`carms data fetch dynamic-mnist`", "CARMS_DATA", "--dataset digits"):
        assert advice in message


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (gzip.compress(flipped(idx(TRAIN))), "SHA-256"),
        (TINY["train-images-idx3-ubyte.gz"][:-9], "gzip is broken"),
        (TINY["train-images-idx3-ubyte.gz"][:30], "gzip is broken"),
        (flipped(TINY["train-images-idx3-ubyte.gz"]), "gzip is broken"),
        (b"<html>404</html>", "SHA-256"),
        (b"", "SHA-256"),
        (gzip.compress(idx(TRAIN) + b"\0"), "more than the 36 bytes expected"),
        (idx(TRAIN) + b"\0", "more than the 36 bytes expected"),
    ],
    ids=range(8),
)
def test_damaged_file_is_named(tiny_mnist, tmp_path, contents, why):
    for name, good in TINY.items():
        put(tmp_path / "mnist" / name, good)
    path = put(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", contents)
    with pytest.raises(ValueError, match=why) as caught:
        load("dynamic-mnist", tmp_path)
    assert str(caught.value).startswith(f"{path} is damaged: ")
    assert [state for _, state in verify("dynamic-mnist", tmp_path)] == ["damaged", "good"]


MATRIX = np.zeros((4, 5))


@pytest.mark.parametrize(
    ("read", "contents", "why"),
    [
        (read_idx, b"\x00\x00\x08\x01" + idx(TRAIN)[4:], "start with 00 00 08 03"),
        (read_idx, idx(TRAIN)[:10], "start with 00 00 08 03"),
        (read_idx, idx(TRAIN)[:-1], "promises 5 images of 2 x 2, 20 bytes in all; it has 19"),
        (read_idx, idx(TRAIN[:0]), "it has 0"),
        (read_amat, b"0 1\n0 2\n", "more than zeros and ones"),
        (read_amat, b"0.0 1.0\n", "more than zeros and ones"),
        (read_amat, b"0 1\n0\n", "3 values do not make lines of 2"),
        (read_amat, b"", "lines of 0"),
        (read_mat, b"", "not a MATLAB file"),
        (read_mat, b"<html>404</html>" * 100, "not a MATLAB file"),
        (read_mat, mat(data=MATRIX, testdata=MATRIX)[:-20], "not a MATLAB file"),
        (read_mat, mat(data=MATRIX), "no numbers called testdata"),
        (read_mat, mat(data="text", testdata=MATRIX), "no numbers called data"),
        (read_mat, mat(data=MATRIX, testdata=MATRIX + 2), "testdata must be .* from 0 to 1"),
        (read_mat, mat(data=MATRIX + np.nan, testdata=MATRIX), "data must be .* from 0 to 1"),
    ],
    ids=range(15),
)
def test_bad_contents(read, contents, why):
    with pytest.raises(ValueError, match=why):
        read(contents)


def test_wrong_shape_without_checksum(tiny_omniglot, tmp_path):
    contents = mat(data=np.zeros((4, 5)), testdata=np.zeros((4, 2)))
    path = put(tmp_path / "omniglot" / "chardata.mat", contents)
    with pytest.raises(ValueError, match=r"expected \[\[5, 4\], \[3, 4\]\]") as caught:
        load("omniglot", tmp_path)
    assert str(path) in str(caught.value)
    assert verify("omniglot", tmp_path) == [(path, "damaged")]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_damaged(tiny_mnist, tmp_path, make):
    for name, good in TINY.items():
        put(tmp_path / "mnist" / name, good)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.unlink()
    make(path)
    assert [state for _, state in verify("dynamic-mnist", tmp_path)] == ["damaged", "good"]
    with pytest.raises(ValueError, match="not a regular file") as caught:
        load("dynamic-mnist", tmp_path)
    assert str(path) in str(caught.value)


def peak_of(call):
    """Bytes that a call had allocated at most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_file_that_unpacks_to_much(tiny_mnist, tmp_path):
    path = put(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", bytes(10**8), pack=True)
    assert path.stat().st_size < 10**5
    assert peak_of(lambda: verify("dynamic-mnist", tmp_path)) < 10**6


def test_a_matlab_file_that_unpacks_to_much(monkeypatch):
    monkeypatch.setattr(formats, "MAT_LIMIT", 10**6)
    contents = mat(data=np.zeros((100, 10**6), "uint8"), testdata=MATRIX)
    assert len(contents) < 2 * 10**5

    def read():
        with pytest.raises(ValueError, match="unpacks to more than 1,000,000 bytes"):
            read_mat(contents)

    assert peak_of(read) < 2e7


def test_verify_tells_the_three_states(tiny_mnist, tmp_path):
    train, test = (tmp_path / "mnist" / name for name in TINY)
    assert verify("dynamic-mnist", tmp_path) == [(train, "missing"), (test, "missing")]
    put(train, TINY[train.name])
    put(test, b"0")
    assert verify("dynamic-mnist", tmp_path) == [(train, "good"), (test, "damaged")]
