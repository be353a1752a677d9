"""Warn the user at a line of the user's own."""

import sys
import warnings
from types import FrameType

__all__ = ["warn_user"]

# Packages whose lines are not the user's.
_SKIPPED = ("carms", "torch")


def warn_user(message: str) -> None:
    """Warn at the last line before the call came into this library, through torch or not."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level if frame else 2)
