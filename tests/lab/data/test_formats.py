"""Formats of files."""

import gzip

import numpy as np
import pytest
import torch
from tiny import SIDE, TEST, TINY, TRAIN, amat, mat, pixels, put, sum_of

from carms.lab.data.datasets import load
from carms.lab.data.formats import read_amat
from carms.lab.data.sources import SOURCES, File, Source


@pytest.mark.parametrize("packed", [True, False])
def test_idx(tiny_mnist, tmp_path, packed):
    for name, contents in TINY.items():
        if packed:
            put(tmp_path / "mnist" / name, contents)
        else:
            put(tmp_path / "mnist" / name.removesuffix(".gz"), gzip.decompress(contents))
    data = load("dynamic-mnist", tmp_path)
    assert data.side == SIDE
    assert data.train.tolist() == TRAIN[:3].tolist()
    assert data.valid.tolist() == TRAIN[3:].tolist()
    assert data.test.tolist() == TEST.tolist()
    assert data.train.dtype == torch.uint8


@pytest.mark.parametrize("packed", [True, False])
def test_amat(monkeypatch, tmp_path, packed):
    bits = [pixels(count, seed=count) & 1 for count in (4, 2, 3)]
    parts = ("train", "valid", "test")
    files = []
    for part, rows in zip(parts, bits, strict=True):
        name = f"binarized_mnist_{part}.amat"
        files.append(File(name, read_amat, (len(rows),), sum_of(amat(rows))))
        put(tmp_path / "binarized_mnist" / (name + ".gz" * packed), amat(rows), pack=packed)
    source = Source("binarized_mnist", tuple(files), (4, 2, 3), side=SIDE)
    monkeypatch.setitem(SOURCES, "static-mnist", source)
    data = load("static-mnist", tmp_path)
    for part, rows in zip(parts, bits, strict=True):
        assert getattr(data, part).tolist() == (255 * rows).tolist()


def test_amat_may_have_other_white_space():
    (found,) = read_amat(b"0 1 \r\n1\t1")
    assert found.tolist() == [[0, 255], [255, 255]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mat_is_turned_upright_unless_told_otherwise(tiny_omniglot, tmp_path, dtype):
    values = {"data": TRAIN, "testdata": TEST}
    # As MATLAB would: every image becomes a column, and columns of pixels come first.
    columns = {
        name: np.stack([row.reshape(SIDE, SIDE).ravel(order="F") for row in rows], axis=1)
        for name, rows in values.items()
    }
    contents = mat(**{name: (rows / 255).astype(dtype) for name, rows in columns.items()})
    put(tmp_path / "omniglot" / "chardata.mat", contents)
    data = load("omniglot", tmp_path)
    assert data.train.tolist() == TRAIN[:4].tolist()
    assert data.valid.tolist() == TRAIN[4:].tolist()
    assert data.test.tolist() == TEST.tolist()
    lying = load("omniglot", tmp_path, upright=False)
    assert lying.test.tolist() == columns["testdata"].T.tolist()


def test_only_omniglot_can_lie():
    with pytest.raises(ValueError, match="upright=False is for omniglot"):
        load("digits", upright=False)
