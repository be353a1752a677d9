"""Carry out many runs, here or on a cluster. Either way a run lives in its directory."""

import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from carms.lab.figures import draw_images
from carms.lab.settings import Settings
from carms.lab.training import InterruptedRunError, Trainer

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
            draw_images(trainer.model, trainer.data, trainer.directory.path)
    except InterruptedRunError:
        # Whoever asked for it wants the process to end, not to begin with the next run.
        os._exit(128 + signal.SIGTERM)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def local(runs: Sequence[Job], workers: int) -> Iterator[Outcome | None]:
    """In processes of this machine, one thread each."""
    left, deaths = list(runs), dict.fromkeys(runs, 0)
    while left:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context, initializer=prepare_process) as pool:
            try:
                yield from _until_broken(pool, left)
            except BaseException:
                # Asked to stop: what runs keeps a checkpoint, what waits does not begin.
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise
        # Runs begin in their order: these had begun when a process died, the others were waiting.
        for run in left[:workers]:
            deaths[run] += 1
            if deaths[run] == ATTEMPTS:
                left.remove(run)
                yield Outcome(run, f"its process died {ATTEMPTS} times")


def _until_broken(pool: ProcessPoolExecutor, left: list[Job]) -> Iterator[Outcome | None]:
    """Outcomes of runs, which are then no longer ``left``, until a process dies."""
    futures: dict[Future[str | None], Job] = {
        pool.submit(work, run.settings.to_json(), str(run.path)): run for run in left
    }
    while futures:
        done, _ = wait(futures, timeout=1, return_when=FIRST_COMPLETED)
        for future in done:
            run = futures.pop(future)
            try:
                outcome = Outcome(run, future.result())
            except BrokenProcessPool:
                return
            left.remove(run)
            yield outcome
        yield None


def prepare_process() -> None:
    """Once in each process."""
    # The parent hears it too, and passes it on as a request to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # Nobody would collect the results of a process whose parent is gone.
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def on_ray(runs: Sequence[Job], address: str) -> Iterator[Outcome | None]:
    """As tasks of a Ray cluster, all of whose nodes see the directories of the runs."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs Ray: pip install 'carms[ray]'") from error
    try:
        _check_reachable(address)
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


def _check_reachable(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()
