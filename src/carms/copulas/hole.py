"""Where a copula never puts two samples."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Hole"]


@dataclass(frozen=True)
class Hole:
    """A part of the unit square in which no two samples of a draw ever are.

    Attributes:
        corner: 0 if it lies where both samples are close to zero, 1 if where both are close to one,
            None if elsewhere.
        categories: largest number of categories of which any two can be drawn together, if the
            most probable one lies at the corner.
    """

    corner: Literal[0, 1] | None = None
    categories: int = 2
