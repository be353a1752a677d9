"""Draws densities.png: where two samples of each copula fall, and which categories they meet in."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from carms.copulas import Circular, Copula, Dirichlet, Gaussian, Independent, Stratified
from carms.couplings import InverseCDF
from carms.lab.figures.colours import colour

FEW, MANY, CELLS = 4, 10, 100
CROSS = "\N{MULTIPLICATION SIGN}"
PROBS = torch.tensor([0.07, 0.13, 0.6, 0.13, 0.07], dtype=torch.float64)
SCALE = {
    "cmap": LinearSegmentedColormap.from_list(
        "lift", [colour("carms-i"), "#ffffff", colour("carms-s")]
    ),
    "vmin": 0,
    "vmax": 2,
}
COPULAS = {
    "independent": Independent,
    "Dirichlet": Dirichlet,
    "Dirichlet, reflected": lambda samples: Dirichlet(samples, reflected=True),
    "Gaussian": Gaussian,
    "stratified": Stratified,
    "circular": Circular,
}
ROWS = (
    f"density of two\nof {FEW} samples",
    f"density of two\nof {MANY} samples",
    "$P(i,j)\\,/\\,p_i p_j$\nin the order given",
    "$P(i,j)\\,/\\,p_i p_j$ over\nthe orders it needs",
)


def density(copula: Copula) -> Tensor:
    """Mean density over each cell of a grid, by exact differences of the CDF."""
    edges = torch.linspace(0, 1, CELLS + 1, dtype=torch.float64)
    corners = copula.cdf(*torch.meshgrid(edges, edges, indexing="ij"))
    return corners.diff(dim=0).diff(dim=1) * CELLS**2


def table(coupling: InverseCDF) -> Tensor:
    """Probability of each pair of categories, relative to that of independent samples."""
    return (coupling.pmf(PROBS) / PROBS.outer(PROBS)).clamp_min(0)


def draw_table(axis: plt.Axes, values: Tensor) -> None:
    """A square per pair, with its number; a cross where a pair off the diagonal never occurs."""
    axis.imshow(values.numpy(), origin="lower", **SCALE)
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            never = i != j and value < 1e-12
            ink = "white" if abs(value - 1) > 0.6 else "#333333"
            axis.text(j, i, CROSS if never else f"{value:.2f}", color=ink, ha="center", va="center",
                      size=13 if never else 6.5, weight="bold" if never else "normal")  # fmt: skip
    axis.set(xticks=range(5), yticks=range(5), xticklabels="abcde", yticklabels="abcde")


def main() -> None:
    """Write the picture beside this file."""
    plt.rcParams.update({"font.size": 8.5, "axes.linewidth": 0.5})
    figure, axes = plt.subplots(4, len(COPULAS), figsize=(11, 7.1), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.02, w_pad=0.02, hspace=0.0, wspace=0.0)
    for column, (name, make) in zip(axes.T, COPULAS.items(), strict=True):
        for axis, samples in zip(column, (FEW, MANY), strict=False):
            image = axis.imshow(
                density(make(samples)).numpy(), origin="lower", extent=(0, 1, 0, 1), **SCALE
            )
            axis.set(xticks=(0, 1), yticks=(0, 1))
        draw_table(column[2], table(InverseCDF(make(FEW), orderings="given")))
        draw_table(column[3], table(InverseCDF(make(FEW))))
        column[0].set_title(name, size=10)
        for axis in column:
            axis.tick_params(length=0)
    widths = ", ".join(f"{p:.2f}" for p in PROBS)
    figure.supxlabel(
        f"tables: {FEW} samples of five categories with probabilities {widths}; "
        f"{CROSS}: a pair that is never drawn",
        size=9,
    )
    for axis, label in zip(axes[:, 0], ROWS, strict=True):
        axis.set_ylabel(label)
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=30, extend="max", ticks=(0, 1, 2))
    bar.ax.set_yticklabels(("never\ntogether", "as by\nchance", "twice\nas often"))
    bar.outline.set_linewidth(0.5)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
