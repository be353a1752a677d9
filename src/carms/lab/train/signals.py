"""Signals that ask a run to stop, answered where it is safe."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["InterruptedRunError", "pending_signals"]

# Not every system has the last of them.
STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class InterruptedRunError(Exception):
    """The run was asked to stop, and can be resumed."""


@contextmanager
def pending_signals() -> Iterator[list[int]]:
    """Collect signals that ask to stop in a list, instead of being interrupted by them.

    Signals that are ignored stay so, as ``nohup`` wants it. Outside the main thread, where Python
    cannot handle signals, the list stays empty.
    """
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return

    def collect(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    before = {
        number: signal.signal(number, collect)
        for number in STOPPING
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
