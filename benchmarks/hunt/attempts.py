"""What kinds of faults have in common."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from hunt.runs import Undisturbed

__all__ = ["Attempt", "Fault", "Lab", "spread"]

Attempt = Callable[[Path], str | None]
"""Lets a fault happen in an empty folder; says why the result is lost, None if it is not."""


@dataclass(frozen=True)
class Lab:
    """What faults befall.

    Attributes:
        tasks: undisturbed runs by name.
        other: an undisturbed VAE with another seed.
        share: how much of a hunt is made, 1 for all of it.
    """

    tasks: dict[str, Undisturbed]
    other: Undisturbed
    share: float

    def count(self, whole: int) -> int:
        """The number of repetitions of which ``whole`` are all."""
        return ceil(self.share * whole)


Fault = Callable[[Lab], Iterable[Attempt]]
"""All attempts with faults of one kind."""


def spread(count: int, share: float) -> list[int]:
    """A share of the numbers from 0 to ``count``, evenly over all of them."""
    wanted = ceil(share * count)
    return [place * count // wanted for place in range(wanted)]
