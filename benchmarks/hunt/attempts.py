"""What kinds of faults have in common."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hunt.runs import Undisturbed

__all__ = ["Attempt", "Fault", "Lab"]

Attempt = Callable[[Path], str | None]
"""Lets a fault happen in an empty folder; says why the result is lost, None if it is not."""


@dataclass(frozen=True)
class Lab:
    """What faults befall.

    Attributes:
        tasks: undisturbed runs by name.
        other: an undisturbed VAE with another seed.
    """

    tasks: dict[str, Undisturbed]
    other: Undisturbed


Fault = Callable[[Lab], Iterable[Attempt]]
"""All attempts with faults of one kind."""
