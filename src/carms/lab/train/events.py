"""TensorBoard's files of a run."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

__all__ = ["event_writer"]


@contextmanager
def event_writer(directory: Path, first: int) -> Iterator[SummaryWriter]:
    """Write TensorBoard's files, from a first step on.

    A thread writes them. Its errors are raised here, so they need not be printed there as well.
    """
    hook, caught = threading.excepthook, list[BaseException | None]()
    threading.excepthook = lambda error: caught.append(error.exc_value)
    try:
        with closing(SummaryWriter(str(directory), purge_step=first)) as writer:
            yield writer
    except OSError as error:
        if error not in caught:
            raise
        raise OSError(error.errno, f"cannot write {directory}: {error.strerror}") from error
    finally:
        threading.excepthook = hook
