"""The disk is too small."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path

from hunt.attempts import Attempt, Lab
from hunt.children import fork, run
from hunt.runs import Undisturbed

__all__ = ["small_disks"]

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PAGE = 4096


def small_disks(lab: Lab) -> Iterator[Attempt]:
    """A disk of too few pages, or of too few files, and then one that is large enough."""
    probe = fork.Process(target=_mount, args=(Path("/tmp"), "size=1M"))
    probe.start()
    probe.join()
    if probe.exitcode:
        # Not every machine lets a user have file systems of his own.
        return
    for whole in lab.tasks.values():
        sizes = [path.stat().st_size for path in whole.path.rglob("*") if path.is_file()]
        # There are never more than three checkpoints, of which two are left.
        pages = ceil(1.5 * sum(size // PAGE + 1 for size in sizes))
        for count in range(1, pages):
            yield partial(_run_out, whole, f"size={PAGE * count}")
        # One is the disk itself; directories and files for a moment take some.
        for count in range(2, len(sizes) + 8):
            yield partial(_run_out, whole, f"nr_inodes={count}")


def _run_out(whole: Undisturbed, limit: str, folder: Path) -> str | None:
    small, path = folder / "small", folder / "run"
    small.mkdir()
    ended = run(whole.command(small / "run"), folder, _disk(small, limit, path))
    if not ended.refused and (ended.status != 0 or not ended.quiet):
        return f"{whole.path.name}, {limit}: {ended}"
    lost = whole.lost(path, run(whole.command(path), folder))
    return lost and f"{whole.path.name}, {limit}, then a larger one: {lost}"


@contextmanager
def _disk(small: Path, limit: str, kept: Path) -> Iterator[None]:
    """A disk of this process alone, whose run is kept elsewhere in the end."""
    _mount(small, limit)
    try:
        yield
    finally:
        if (small / "run").exists():
            shutil.copytree(small / "run", kept)


def _mount(folder: Path, options: str) -> None:
    """Mount a file system in memory, for this process and without rights."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
