"""The pool of processes: jobs done on this machine."""

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from carms.lab.sweep.jobs import Job, Outcome, Work, attempt

__all__ = ["in_processes", "number_of_workers"]

# How often a process may die under a job before that counts as the job's fault.
ATTEMPTS = 3


def number_of_workers(workers: int | None) -> int:
    """The number of processes: as many as cores by default."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    return workers or os.cpu_count() or 1


def in_processes(work: Work, jobs: Sequence[Job[Any]], workers: int) -> Iterator[Outcome | None]:
    """Do jobs in processes of this machine, one thread each.

    A job that another process holds is tried once more, after all others.
    """
    waiting, deaths, postponed = deque(jobs), Counter[Job[Any]](), set[Job[Any]]()
    # A pool breaks as a whole: with a pool for each process, a death ends one job alone.
    idle = [_one_process() for _ in range(min(workers, len(jobs)))]
    busy: dict[Future[Outcome], tuple[Job[Any], ProcessPoolExecutor]] = {}
    try:
        while waiting or busy:
            while waiting and idle:
                job, pool = waiting.popleft(), idle.pop()
                busy[_started(work, job, pool)] = job, pool
            done, _ = wait(busy, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                job, pool = busy.pop(future)
                if not isinstance(future.exception(), BrokenProcessPool):
                    idle.append(pool)
                    outcome = future.result()
                    if outcome.held and job not in postponed:
                        postponed.add(job)
                        waiting.append(job)
                    else:
                        yield outcome
                    continue
                idle.append(_one_process())
                deaths[job] += 1
                if deaths[job] < ATTEMPTS:
                    waiting.appendleft(job)
                else:
                    yield Outcome(job, f"its process died {ATTEMPTS} times")
            yield None
    except BaseException:
        # Asked to stop: runs that are being trained keep a checkpoint.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        for pool in [*idle, *(pool for _, pool in busy.values())]:
            pool.shutdown()


def _one_process() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_prepare_process)


def _started(work: Work, job: Job[Any], pool: ProcessPoolExecutor) -> "Future[Outcome]":
    try:
        return pool.submit(attempt, work, job)
    except BrokenProcessPool as error:
        # Its process died while it had nothing to do.
        broken: Future[Outcome] = Future()
        broken.set_exception(error)
        return broken


def _prepare_process() -> None:
    """Make a worker process leave interrupts to its parent, and end with it."""
    # The parent hears an interrupt too, and passes it on as a request to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent is gone, also if it went before this began, and ask to end as well."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
