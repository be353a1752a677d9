"""How the coupled samples of a variable are correlated, category by category."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from carms.copulas import Circular, Copula, Dirichlet, Gaussian
from carms.couplings import Coupling, GumbelMax, InverseCDF
from carms.lab.figures.figures import save_figure

__all__ = ["Panel", "correlations", "draw_correlations"]

# Draws where there is no table to read from; in chunks.
DRAWS, CHUNK = 200_000, 10_000


@dataclass(frozen=True)
class Panel:
    """Of one coupling.

    Attributes:
        matrix: ``[C, C]`` of ``corr(z_i, z'_j)`` for two samples of one draw.
        exact: read from the joint table; otherwise from many draws.
    """

    name: str
    matrix: Tensor
    exact: bool


def correlations(probs: Tensor, samples: int, seed: int = 0) -> list[Panel]:
    """Every copula under both ways of sampling; ``probs [C]`` in double precision."""
    copulas: dict[str, Copula] = {
        "Dirichlet": Dirichlet(samples),
        "Gaussian": Gaussian(samples),
        "circular": Circular(samples),
    }
    stream = torch.Generator().manual_seed(seed)
    panels = []
    for way, couple in (("inverse CDF", InverseCDF), ("Gumbel-max", GumbelMax)):
        for name, copula in copulas.items():
            coupling: Coupling = couple(copula)
            try:
                table, exact = coupling.pmf(probs), True
            except ValueError:
                table, exact = _frequencies(coupling, probs, stream), False
            panels.append(Panel(f"{way}, {name}", _correlation(table, probs), exact))
    return panels


def _frequencies(coupling: Coupling, probs: Tensor, stream: torch.Generator) -> Tensor:
    """The joint table of the first two samples of many draws."""
    size = len(probs)
    counts = torch.zeros(size * size, dtype=probs.dtype)
    for _ in range(DRAWS // CHUNK):
        first, second, *_ = coupling.sample(probs.expand(CHUNK, size), stream)
        counts += torch.bincount(first * size + second, minlength=size * size)
    table = counts.view(size, size) / DRAWS
    return (table + table.T) / 2


def _correlation(table: Tensor, probs: Tensor) -> Tensor:
    spread = (probs * (1 - probs)).sqrt()
    return (table - torch.outer(probs, probs)) / torch.outer(spread, spread)


def draw_correlations(panels: Sequence[Panel], out: Path) -> list[Path]:
    """A panel for each coupling, one scale for all."""
    columns = len(panels) // 2
    figure, axes = plt.subplots(2, columns, figsize=(3.1 * columns, 6.2), layout="constrained")
    largest = max(panel.matrix.abs().max().item() for panel in panels)
    picture = None
    for axis, panel in zip(axes.flat, panels, strict=True):
        picture = axis.imshow(panel.matrix, cmap="RdBu_r", vmin=-largest, vmax=largest)
        axis.set_title(panel.name + ("" if panel.exact else f"\n({DRAWS:,} draws)"), fontsize=10)
        ticks = range(len(panel.matrix))
        axis.set_xticks(ticks, [f"{k + 1}" for k in ticks])
        axis.set_yticks(ticks, [f"{k + 1}" for k in ticks])
        axis.set(xlabel="category of z'", ylabel="category of z")
        for (row, column), value in _cells(panel.matrix):
            shade = "white" if abs(value) > 0.6 * largest else "black"
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade, size=8)
    assert picture is not None
    figure.colorbar(picture, ax=axes, label="correlation of two samples", shrink=0.8)
    return save_figure(figure, out)


def _cells(matrix: Tensor) -> list[tuple[tuple[int, int], float]]:
    if len(matrix) > 8:
        return []
    return [
        ((row, column), value)
        for row, values in enumerate(matrix.tolist())
        for column, value in enumerate(values)
    ]
