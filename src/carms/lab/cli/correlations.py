"""The command that draws the correlations of coupled samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import print_table
from carms.lab.cli.flags import named

if TYPE_CHECKING:
    from carms.lab.figures.correlations import Panel

__all__ = ["Correlations"]


@dataclass(frozen=True)
class Correlations:
    """Draw how two samples of one variable are correlated, for every copula and coupling.

    Attributes:
        probs: probabilities of the categories; they are divided by their sum
        samples: number of samples that are drawn together
        out: picture to write, as PNG and as SVG
    """

    probs: Annotated[tuple[float, ...], named("P ...")] = (1, 2, 3, 4)
    samples: int = 4
    out: Path = Path("correlations.png")

    def run(self, console: Console) -> None:
        """Compute the correlations, print a table and draw them."""
        import torch

        from carms.lab.figures.axes import picture_paths
        from carms.lab.figures.correlations import correlations, draw_correlations

        picture_paths(self.out)
        weights = torch.tensor(self.probs, dtype=torch.float64)
        if len(weights) < 2 or not (weights > 0).all() or not weights.isfinite().all():
            raise ValueError(f"probs are at least two positive numbers, got {self.probs}")
        # The sum of large numbers may be infinite.
        weights /= weights.max()
        probs = weights / weights.sum()
        # Beside a smaller probability, another may be rounded to 1, which has no correlation.
        least = torch.finfo(probs.dtype).eps
        if probs.min() < least:
            raise ValueError(f"probs must be at least {least:.1e} of their sum, got {self.probs}")
        panels = correlations(probs, self.samples)
        print_table(console, _table(panels, self.samples))
        for written in draw_correlations(panels, probs, self.samples, self.out):
            console.print(f"written to {written}")


def _table(panels: Sequence["Panel"], samples: int) -> Table:
    table = Table(title=f"Correlation of two of {samples} samples")
    table.add_column("coupling")
    table.add_column("same category, mean", justify="right")
    table.add_column("lowest", justify="right")
    table.add_column("from")
    for panel in panels:
        same, lowest = panel.matrix.diagonal().mean().item(), panel.matrix.min().item()
        source = "its table" if panel.exact else "draws"
        table.add_row(panel.name, f"{same:z.3f}", f"{lowest:z.3f}", source)
    return table
