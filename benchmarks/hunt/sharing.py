"""Two commands work on one directory."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hunt.attempts import Attempt, Lab
from hunt.children import Child, run
from hunt.operations import Operations
from hunt.runs import Undisturbed, differences

__all__ = ["two_commands"]


def two_commands(lab: Lab) -> Iterator[Attempt]:
    """While one is held at an operation on a file, another of the same or other settings runs."""
    first = lab.tasks["vae"]
    for second in (first, lab.other):
        for at in range(1, first.operations + 1):
            yield partial(_meet, first, second, at)


def _meet(first: Undisturbed, second: Undisturbed, at: int, folder: Path) -> str | None:
    path = folder / "run"
    pause = Operations(path, at, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    child = Child(first.command(path), folder, pause)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    while_held = run(second.command(path), folder)
    if child.group():
        os.kill(child.pid, signal.SIGCONT)
    both = [(first, child.wait()), (second, while_held)]
    what = f"{'the same' if first == second else 'other'} settings, at operation {at}"
    for whole, ended in both:
        if not ended.refused and (ended.status != 0 or not ended.quiet):
            return f"{what}: {ended}"
        lost = None if ended.refused else differences(whole.path, path)
        if lost:
            return f"{what}: {lost}"
    if all(ended.refused for _, ended in both):
        lost = first.lost(path, run(first.command(path), folder))
        return lost and f"{what}: both refuse, then {lost}"
    return None
