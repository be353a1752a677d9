"""Judges how a call ended."""

import dis
import signal
import traceback
from pathlib import Path

import carms

SECONDS = 15
PACKAGE = str(Path(carms.__file__).parent)


class TooLongError(BaseException):
    """A call took too long. It is not an Exception, so that no handler of the library takes it."""


def outcome(fuzz, surface):
    """How a call ended: "right", "refused", "of f", or the text of what was wrong."""

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        for tensor, shape, dtype in getattr(fuzz, f"call_{surface}")():
            assert tensor.shape == tuple(shape), f"shape {list(tensor.shape)}, expected {shape}"
            assert tensor.isfinite().all(), "not finite"
            assert dtype in (None, tensor.dtype), f"{tensor.dtype}, expected {dtype}"
        return "right"
    except TooLongError:
        return "no end"
    except Exception as error:
        if _is_of_f(error):
            return "of f"
        if _is_ours(error):
            return "refused"
        return "".join(traceback.format_exception(error, limit=-6))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_ours(error):
    """Whether a ``raise`` of this package raised it, not something that the package called."""
    if type(error) not in (ValueError, TypeError):
        return False
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code
    raised = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return raised and code.co_filename.startswith(PACKAGE)


def _is_of_f(error):
    """Whether it was raised inside a function that the package was given."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(code.co_qualname.startswith(("functions.", "steps.")) for code in codes)
