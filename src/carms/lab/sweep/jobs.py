"""Runs to train somewhere else, in another process or on another machine."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from carms.lab.runs.settings import Settings

__all__ = ["Executor", "Job", "Outcome", "Work", "attempt", "train_run"]

# Seconds for which a run waits for the process that had it before to let go of it.
PATIENCE = 60.0

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Job(Generic[Kind]):
    """Settings of a run, and its directory, or the file for its result."""

    settings: Kind
    path: Path


@dataclass(frozen=True)
class Outcome:
    """A job that has ended.

    Attributes:
        job: what has ended.
        error: why it is not finished; None if it is.
        held: whether that is because another process trains it, which is no failure.
    """

    job: Job[Any]
    error: str | None
    held: bool = False


Work = Callable[[Any, Path], object]
"""Trains a run, given its settings and its path; a function that other processes can import.
"""

Executor = Callable[[Work, Sequence[Job[Any]]], Iterator[Outcome | None]]
"""Gives outcomes as jobs end, and None about once a second, so that the caller can look around."""


def train_run(settings: Settings, path: Path) -> None:
    """Train a run to its end, from its last checkpoint if there is one."""
    from carms.lab.train.training import Trainer

    Trainer(settings, path).run(patience=PATIENCE)


def attempt(work: Work, job: Job[Any]) -> Outcome:
    """Do a job on one thread, in a process that is made for it."""
    import torch

    from carms.lab.runs.store import HeldRunError
    from carms.lab.train.signals import InterruptedRunError

    torch.set_num_threads(1)
    try:
        work(job.settings, job.path)
    except InterruptedRunError:
        # Whoever asked for it wants the process to end, not to begin with the next job.
        os._exit(128 + signal.SIGTERM)
    except HeldRunError as error:
        return Outcome(job, str(error), held=True)
    except Exception as error:
        return Outcome(job, f"{type(error).__name__}: {error}")
    return Outcome(job, None)
