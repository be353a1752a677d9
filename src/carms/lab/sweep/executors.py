"""Carry out many runs, here or on a cluster. Either way a run lives in its directory."""

import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from carms.lab.runs.settings import Settings
from carms.lab.train.training import InterruptedRunError, Trainer

__all__ = ["Executor", "Job", "Outcome", "local", "on_ray", "prepare_process"]

# How often a process may die under a run before that is the run's fault.
ATTEMPTS = 3
# Seconds for which a run waits for the process that had it before to let go of it.
PATIENCE = 60.0


@dataclass(frozen=True)
class Job:
    """Something to train, and where."""

    settings: Settings
    path: Path


@dataclass(frozen=True)
class Outcome:
    """A run that has ended.

    Attributes:
        error: why it failed; None if it did not.
    """

    run: Job
    error: str | None


Executor = Callable[[Sequence[Job]], Iterator[Outcome | None]]
"""Gives outcomes as runs end, and None about once a second, for whoever wants to look around."""


def work(config: dict[str, Any], path: str) -> str | None:
    """Train one run to its end, wherever it stands; its error, if it has one."""
    torch.set_num_threads(1)
    try:
        trainer = Trainer(Settings.from_json(config), Path(path))
        if trainer.directory.result is None:
            trainer.run(patience=PATIENCE)
    except InterruptedRunError:
        # Whoever asked for it wants the process to end, not to begin with the next run.
        os._exit(128 + signal.SIGTERM)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def local(runs: Sequence[Job], workers: int) -> Iterator[Outcome | None]:
    """Train in processes of this machine, one thread each."""
    waiting, deaths = deque(runs), Counter[Job]()
    # A pool breaks as a whole: with a process each, a death is that of one run alone.
    idle = [_one_process() for _ in range(min(workers, len(runs)))]
    busy: dict[Future[str | None], tuple[Job, ProcessPoolExecutor]] = {}
    try:
        while waiting or busy:
            while waiting and idle:
                run, pool = waiting.popleft(), idle.pop()
                busy[_started(run, pool)] = run, pool
            done, _ = wait(busy, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                run, pool = busy.pop(future)
                if not isinstance(future.exception(), BrokenProcessPool):
                    idle.append(pool)
                    yield Outcome(run, future.result())
                    continue
                idle.append(_one_process())
                deaths[run] += 1
                if deaths[run] < ATTEMPTS:
                    waiting.appendleft(run)
                else:
                    yield Outcome(run, f"its process died {ATTEMPTS} times")
            yield None
    except BaseException:
        # Asked to stop: what runs keeps a checkpoint.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        for pool in [*idle, *(pool for _, pool in busy.values())]:
            pool.shutdown()


def _one_process() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=prepare_process)


def _started(run: Job, pool: ProcessPoolExecutor) -> "Future[str | None]":
    try:
        return pool.submit(work, run.settings.to_json(), str(run.path))
    except BrokenProcessPool as error:
        # Its process died while it had nothing to do.
        broken: Future[str | None] = Future()
        broken.set_exception(error)
        return broken


def prepare_process() -> None:
    """Make a worker process leave interrupts to its parent, and end with it."""
    # The parent hears it too, and passes it on as a request to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent is gone, also if it went before this began, and ask to end as well."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def on_ray(runs: Sequence[Job], address: str) -> Iterator[Outcome | None]:
    """Train as tasks of a Ray cluster, all of whose nodes see the directories of the runs.

    Args:
        runs: what to train.
        address: ``"HOST:PORT"`` or ``"ray://HOST:PORT"`` of a cluster that runs already, or
            ``"auto"`` for one that was started on this machine.
    """
    # Ray reads these when it is imported. Otherwise it tries to connect for 13 minutes, and looks
    # for a cluster on loopback at another address of this machine.
    if address != "auto" and _on_loopback(address):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs Ray: pip install 'carms[ray]'") from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError) as error:
        raise ValueError(f"there is no Ray cluster at {address!r}: {error}") from error
    try:
        # A task that dies with its worker or its node is begun again, and resumes.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS * 10)(work)
        waiting = {
            task.remote(run.settings.to_json(), str(run.path.absolute())): run for run in runs
        }
        while waiting:
            done, _ = ray.wait([*waiting], timeout=1)
            for reference in done:
                run = waiting.pop(reference)
                try:
                    yield Outcome(run, ray.get(reference))
                except ray.exceptions.RayError as error:
                    yield Outcome(run, f"{type(error).__name__}: {error}")
            yield None
    finally:
        ray.shutdown()


def _on_loopback(address: str) -> bool:
    """Whether a cluster is on the loopback of this machine; an error if nobody listens there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal():
        raise ValueError(
            f"--ray takes HOST:PORT, ray://HOST:PORT or auto, got {address!r}; "
            "to use this machine alone, leave it out"
        )
    try:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            return ipaddress.ip_address(connection.getpeername()[0]).is_loopback
    except (OSError, OverflowError, UnicodeError) as error:
        raise ValueError(f"there is no Ray cluster at {address!r}: {error}") from error
