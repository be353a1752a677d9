"""The real files, where they are."""

import os

import pytest
import torch

from carms.lab.data.datasets import load
from carms.lab.data.missing import MissingData


def real(name, **options):
    if not os.environ.get("CARMS_DATA"):
        pytest.skip("CARMS_DATA does not say where the real data are")
    try:
        return load(name, **options)
    except MissingData as error:
        pytest.skip(str(error))


def mean(*parts):
    return sum(int(part.sum()) for part in parts) / sum(part.numel() for part in parts) / 255


@pytest.mark.parametrize(
    ("name", "expected"),
    # As everybody normalises with them; of all 60,000.
    [("dynamic-mnist", 0.1306604762738429), ("fashion-mnist", 0.2860405969887955)],
)
def test_real_mnist(name, expected):
    data = real(name)
    parts = (data.train, data.valid, data.test)
    assert [list(part.shape) for part in parts] == [[50_000, 784], [10_000, 784], [10_000, 784]]
    assert all(part.dtype == torch.uint8 for part in parts)
    assert mean(data.train, data.valid) == pytest.approx(expected, rel=1e-12)


def test_real_static_mnist():
    data = real("static-mnist")
    parts = (data.train, data.valid, data.test)
    assert [list(part.shape) for part in parts] == [[50_000, 784], [10_000, 784], [10_000, 784]]
    assert [int((part == 255).sum()) for part in parts] == [5118041, 1028036, 1038896]
    assert [int((part == 0).sum()) for part in parts] == [34081959, 6811964, 6801104]
    # In another order, each could be a draw of an image of dynamic MNIST.
    probs = real("dynamic-mnist").test
    for draw in data.test[:5]:
        impossible = ((draw == 255) & (probs == 0)) | ((draw == 0) & (probs == 255))
        assert not impossible.any(1).all()


def test_real_omniglot():
    data = real("omniglot")
    parts = (data.train, data.valid, data.test)
    assert [list(part.shape) for part in parts] == [[23_000, 784], [1_345, 784], [8_070, 784]]
    assert mean(data.train, data.valid) == pytest.approx(0.0830, abs=5e-4)
    lying = real("omniglot", upright=False).test
    assert not torch.equal(lying, data.test)
    assert torch.equal(lying.view(-1, 28, 28).mT, data.test.view(-1, 28, 28))
