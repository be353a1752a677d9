"""Processes are killed, or asked to stop, and the same command goes on."""

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hunt.attempts import Attempt, Lab
from hunt.children import Child, run
from hunt.operations import Operations
from hunt.runs import Undisturbed

__all__ = ["killed_anywhere", "killed_at_operations", "stopped"]

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def killed_anywhere(lab: Lab) -> Iterator[Attempt]:
    """SIGKILL at random moments, to the command or to one of its workers."""
    for task, whole in lab.tasks.items():
        for number in range(100):
            yield partial(_kill_later, whole, f"{task} {number}")


def killed_at_operations(lab: Lab) -> Iterator[Attempt]:
    """SIGKILL at every operation on a file that changes something."""
    for whole in lab.tasks.values():
        for at in range(1, whole.operations + 1):
            yield partial(_kill_at, whole, at)


def stopped(lab: Lab) -> Iterator[Attempt]:
    """SIGINT, SIGTERM and SIGHUP at random moments."""
    for task, whole in lab.tasks.items():
        for number in range(10):
            for wanted in STOPS:
                yield partial(_stop_later, whole, wanted, f"{task} {number} {wanted}")


def _kill_later(whole: Undisturbed, seed: str, folder: Path) -> str | None:
    chance = random.Random(seed)
    child = Child(whole.command(folder / "run"), folder)
    time.sleep(chance.random() * whole.seconds)
    alive = child.group()
    if alive:
        os.kill(chance.choice(alive), signal.SIGKILL)
    if child.wait().status is None:
        return "hangs after the death of one of its processes"
    return _goes_on(whole, folder)


def _kill_at(whole: Undisturbed, at: int, folder: Path) -> str | None:
    death = Operations(folder / "run", at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    if run(whole.command(folder / "run"), folder, death).status is None:
        return f"hangs after the death of one of its processes at operation {at}"
    lost = _goes_on(whole, folder)
    return lost and f"killed at operation {at}: {lost}"


def _stop_later(whole: Undisturbed, wanted: int, seed: str, folder: Path) -> str | None:
    child = Child(whole.command(folder / "run"), folder)
    time.sleep(0.02 + random.Random(seed).random() * whole.seconds)
    if child.group():
        os.kill(child.pid, wanted)
    ended = child.wait()
    if ended.status is None or not ended.quiet:
        return f"{signal.Signals(wanted).name}: {ended}"
    return _goes_on(whole, folder)


def _goes_on(whole: Undisturbed, folder: Path) -> str | None:
    return whole.lost(folder / "run", run(whole.command(folder / "run"), folder))
