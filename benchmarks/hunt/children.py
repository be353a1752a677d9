"""Run commands of ``carms`` in processes that are forked from one that has imported everything."""

import importlib
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import NamedTuple

import matplotlib

import carms.lab.cli.main
from carms.lab.data.datasets import load

__all__ = ["Child", "Ended", "alive", "fork", "prepare", "run"]

# Seconds after which a command counts as hanging, and those of the processor, which a busy machine
# does not change.
PATIENCE, PROCESSOR_SECONDS = 60.0, 15
# Bytes of address space: a command that reads without end must not take the machine with it.
MEMORY = 2 * 2**30

# What the commands import when they run, and the first backward pass.
IMPORTED_LATE = (
    "carms.lab.report.curves",
    "carms.lab.report.page",
    "carms.lab.sweep.processes",
    "carms.lab.train.forecast",
    "torch.fx.experimental.symbolic_shapes",
)

fork = multiprocessing.get_context("fork")


class Ended(NamedTuple):
    """What a command has left behind; its status is None if it had to be killed for hanging."""

    status: int | None
    output: str
    errors: str

    @property
    def refused(self) -> bool:
        """Whether it said in an error, without a traceback, why it did not do what was asked."""
        return bool(self.status and self.status > 0 and self.errors.strip() and self.quiet)

    @property
    def quiet(self) -> bool:
        """Whether there is no traceback."""
        return "Traceback" not in self.output + self.errors

    def __str__(self) -> str:
        if self.status is None:
            return "hangs"
        last = (self.errors.strip() or self.output.strip() or "nothing").splitlines()[-1]
        return f"{'' if self.quiet else 'traceback, '}status {self.status}: {last[:200]}"


class Child:
    """A command that runs.

    Args:
        arguments: what would follow ``carms`` in a shell.
        scratch: folder for what it prints.
        fault: a context in which the command runs, inside its process.
    """

    def __init__(
        self,
        arguments: Iterable[str],
        scratch: Path,
        fault: AbstractContextManager[object] | None = None,
    ) -> None:
        self._logs = [scratch / f"{time.monotonic_ns()}.{name}" for name in ("out", "err")]
        self._ready = fork.Event()
        self.process: ForkProcess = fork.Process(
            target=self._main, args=([*arguments], fault or nullcontext())
        )
        self.process.start()
        self._ready.wait(PATIENCE)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def group(self) -> list[int]:
        """The processes of the command that are alive, its own and its workers'."""
        return alive(self.pid)

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Wait for the end of the command and of its workers; kill what hangs."""
        deadline = time.monotonic() + seconds
        self.process.join(seconds)
        while self.group() and time.monotonic() < deadline:
            time.sleep(0.02)
        hanging = self.group()
        for pid in hanging:
            os.kill(pid, signal.SIGKILL)
        self.process.join()
        texts = [path.read_text(errors="backslashreplace") for path in self._logs]
        return Ended(None if hanging else self.process.exitcode, *texts)

    def _main(self, arguments: list[str], fault: AbstractContextManager[object]) -> None:
        os.setsid()
        for number, path in enumerate(self._logs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
        # Without a clock, all that a run writes depends on its settings alone.
        time.perf_counter = time.process_time = lambda: 0.0
        # Workers, too, have imported everything.
        multiprocessing.get_context = lambda method=None: fork  # type: ignore[assignment]
        sys.argv = ["carms", *arguments]
        with fault:
            self._ready.set()
            carms.lab.cli.main.main()


def alive(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def run(
    arguments: Iterable[str],
    scratch: Path,
    fault: AbstractContextManager[object] | None = None,
    patience: float = PATIENCE,
) -> Ended:
    """Run a command to its end."""
    return Child(arguments, scratch, fault).wait(patience)


def prepare() -> None:
    """Import and set, in the process that is forked, what every command would."""
    for module in IMPORTED_LATE:
        importlib.import_module(module)
    load("digits")
    matplotlib.rcParams["svg.hashsalt"] = "the same in every process"
    os.environ["SOURCE_DATE_EPOCH"] = "0"
