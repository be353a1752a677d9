"""Correlation of two coupled samples of a variable, category by category."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from carms.copulas import Circular, Copula, Dirichlet, Gaussian
from carms.couplings import Coupling, GumbelMax, InverseCDF
from carms.lab.figures.axes import save_figure

__all__ = ["Panel", "correlations", "draw_correlations"]

# Number of draws for a coupling without a joint table, and of those made at a time.
DRAWS, CHUNK = 200_000, 10_000
# Most categories whose probabilities and correlations are printed.
PRINTED = 8


@dataclass(frozen=True)
class Panel:
    """Correlations under one coupling.

    Attributes:
        name: way of sampling, and copula.
        matrix: ``[C, C]`` of ``corr(z_i, z'_j)`` for two samples of one draw.
        exact: whether it is computed from the joint table, and not measured on many draws.
    """

    name: str
    matrix: Tensor
    exact: bool


def correlations(probs: Tensor, samples: int) -> list[Panel]:
    """Correlations of each copula under both ways of sampling, for ``probs [C]`` in float64."""
    copulas: dict[str, Copula] = {
        "Dirichlet": Dirichlet(samples),
        "Gaussian": Gaussian(samples),
        "circular": Circular(samples),
    }
    stream = torch.Generator().manual_seed(0)
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
    """Estimate the joint table from the first two samples of many draws."""
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


def draw_correlations(
    panels: Sequence[Panel], probs: Tensor, samples: int, out: Path
) -> list[Path]:
    """Draw a matrix for each coupling, all with the same scale of colours."""
    columns = len(panels) // 2
    figure, axes = plt.subplots(
        2,
        columns,
        figsize=(3.1 * columns, 6.6),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    largest = max(panel.matrix.abs().max().item() for panel in panels)
    for axis, panel in zip(axes.flat, panels, strict=True):
        _draw_matrix(axis, panel, largest)
    for axis in axes[-1]:
        axis.set_xlabel("category of the other")
    for axis in axes[:, 0]:
        axis.set_ylabel("category of one sample")
    figure.colorbar(axes.flat[0].images[0], ax=axes, label="correlation", shrink=0.8)
    figure.suptitle(f"Correlation of two of N = {samples} samples, {_probs_in_words(probs)}")
    return save_figure(figure, out)


def _draw_matrix(axes: Axes, panel: Panel, largest: float) -> None:
    axes.imshow(panel.matrix.numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    how = "exact" if panel.exact else f"from {DRAWS:,} draws"
    axes.set_title(f"{panel.name}\n{how}", size=10)
    categories = len(panel.matrix)
    # As many numbers as fit without overlap.
    ticks = range(0, categories, -(-categories // 10))
    axes.set_xticks(ticks, [f"{k + 1}" for k in ticks])
    axes.set_yticks(ticks, [f"{k + 1}" for k in ticks])
    axes.tick_params(length=0)
    if categories > PRINTED:
        return
    for row, values in enumerate(panel.matrix.tolist()):
        for column, value in enumerate(values):
            shade = "white" if abs(value) > 0.6 * largest else "black"
            text = f"{value:z.2f}"
            axes.text(column, row, text, ha="center", va="center", color=shade, size=8)


def _probs_in_words(probs: Tensor) -> str:
    if len(probs) > PRINTED:
        return f"C = {len(probs)} categories"
    return f"p = ({', '.join(f'{p:.3g}' for p in probs.tolist())})"
