"""Something happens at one of the operations on files that a command makes."""

import mmap
import os
import struct
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

__all__ = ["Operations"]

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    *("os.mkdir", "os.rmdir", "os.rename", "os.remove", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.utime"),
}


class Operations(AbstractContextManager["Operations"]):
    """Counts operations on files below a folder, and does something at one of them.

    Of a file that is opened to be written, the moments before and after count: it is empty then.
    The count is one for all processes that are forked from this one.

    Args:
        folder: whose files count; a relative path counts, too.
        at: which operation, from 1.
        act: what happens then, just before the operation.
        reading: whether opening a file to read it counts as well.
    """

    def __init__(
        self,
        folder: Path,
        at: int = 0,
        act: Callable[[], None] = lambda: None,
        reading: bool = False,
    ) -> None:
        self._folder, self._at, self._act, self._reading = str(folder), at, act, reading
        self._shared = mmap.mmap(-1, 8)
        self._on = False

    @property
    def seen(self) -> int:
        """The number of operations so far."""
        return int(struct.unpack_from("q", self._shared)[0])

    def __enter__(self) -> "Operations":
        self._on = True
        sys.addaudithook(self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        self._on = False

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if not self._on or not (event == "open" or event in CHANGES):
            return
        if not isinstance(args[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(args[0])
        if os.path.isabs(path) and not path.startswith(self._folder):
            return
        flags = int(args[2]) if event == "open" else WRITES  # type: ignore[call-overload]
        if not (flags & WRITES or self._reading):
            return
        self._pass()
        if event == "open" and flags & WRITES:
            self._pass(lambda: os.path.isabs(path) and os.close(os.open(path, flags, 0o666)))

    def _pass(self, prepare: Callable[[], object] = lambda: None) -> None:
        """Count one operation, and act if it is the one."""
        struct.pack_into("q", self._shared, 0, self.seen + 1)
        if self.seen == self._at:
            self._on = False
            prepare()
            self._act()
