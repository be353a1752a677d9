"""Download one file, with limits on its size and on the time that it takes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin

from carms.lab.data.sources import Sum
from carms.lab.extras import needed

__all__ = ["download"]

CHUNK = 1 << 16
# The lowest mean rate of a download, in bytes a second, and the seconds before it must be met.
SLOWEST, GRACE = 1 << 16, 60.0


def download(
    url: str, path: Path, expected: Sum, on_bytes: Callable[[int], None] = lambda count: None
) -> None:
    """Download a file over https; an error if it is another one, too long, or comes too slowly.

    Args:
        url: address of the file.
        path: where to write it. After an error, what is there cannot be used.
        expected: its size and its checksum.
        on_bytes: is told how many bytes have come with each chunk.
    """
    pooch = needed("pooch")
    # Closed when this returns: a download that has been given up ends at its next chunk.
    with path.open("wb") as file:
        bounded = _Bounded(file, expected.size, on_bytes)
        _in_time(lambda: _get(pooch, url, bounded), bounded)
    if expected.sha256 and pooch.file_hash(str(path)) != expected.sha256:
        raise ValueError("its SHA-256 is not that of the original")


def _get(pooch: Any, url: str, file: "_Bounded") -> None:
    with ExitStack() as responses:

        def check(response: Any, **_: object) -> None:
            """Refuse what is not https, before a redirection to it is followed."""
            responses.callback(response.close)
            target = urljoin(response.url, response.headers.get("location", ""))
            if not target.startswith("https://"):
                raise ValueError(f"{target} is not an https address")

        downloader = pooch.HTTPDownloader(
            chunk_size=CHUNK,
            hooks={"response": check},
            headers={"Accept-Encoding": "identity"},
        )
        downloader(url, file, None)


class _Bounded:
    """A file that takes a given number of bytes and no more."""

    def __init__(self, file: BinaryIO, limit: int, on_bytes: Callable[[int], None]) -> None:
        self.file, self.limit, self.on_bytes = file, limit, on_bytes
        self.size = 0

    def write(self, chunk: bytes) -> None:
        """Write a chunk, if there is room for it."""
        self.size += len(chunk)
        if self.size > self.limit:
            raise ValueError(f"it has more than the {self.limit:,} bytes expected")
        self.file.write(chunk)
        self.on_bytes(len(chunk))

    def flush(self) -> None:
        """Do nothing: closing the file flushes it."""


def _in_time(get: Callable[[], object], target: _Bounded) -> None:
    """Download in a thread: a server that sends a byte a second never lets requests time out."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(get())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    started = time.monotonic()
    while not wait([future], timeout=GRACE / 100).done:
        seconds = time.monotonic() - started
        if target.size < (seconds - GRACE) * SLOWEST:
            raise TimeoutError(f"only {target.size:,} bytes came in {seconds:.0f} seconds")
    future.result()
