"""The paper's toy problem: how much do estimators of the same gradient vary?

``f(z) = sum_d sum_c d c z_dc`` with three variables of three categories, three samples, and
``p ~ Dir(alpha)`` from low entropy (alpha = 1) to nearly uniform (alpha = 1000). Measures the
bias and variance of each estimator, and draws the variances of all logits as a box plot.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import carms
from carms.core.checks.tensors import check_memory
from carms.lab.figures.axes import plain_log_axis, save_figure
from carms.lab.figures.colours import colour

__all__ = ["ALPHAS", "SIZE", "ToyResult", "check_size", "draw_toy", "run_toy"]

SIZE = 3
ALPHAS = (1.0, 10.0, 100.0, 1000.0)
# Of a gradient, relative to its length.
ROUNDING = 1e-14


@dataclass(frozen=True)
class ToyResult:
    """Gradients of one estimator at one alpha.

    Attributes:
        estimator: its name.
        alpha: concentration of the probabilities.
        variances: variance of the gradient with respect to each logit, ``[problems, D, C]``.
        bias: length of the mean gradient minus the exact one, over its standard error; about 1 is
            what chance alone gives.
    """

    estimator: str
    alpha: float
    variances: Tensor
    bias: float


def f(z: Tensor) -> Tensor:
    """Objective of the paper."""
    number = torch.arange(1, SIZE + 1, dtype=z.dtype)
    return torch.einsum("...dc,d,c->...", z, number, number)


def check_size(problems: int, replicates: int) -> None:
    """Raise if the gradients of an estimator do not fit into memory."""
    # Numbers of double precision: the gradients, the logits, and the samples.
    itemsize = 8 * (2 + SIZE)
    shape = (replicates, problems, SIZE, SIZE)
    check_memory("replicates and problems", shape, itemsize, torch.device("cpu"))


def run_toy(
    estimators: Sequence[str], problems: int, replicates: int, seed: int
) -> Iterable[ToyResult]:
    """Run all estimators on the same random problems, and yield one result after the other."""
    source = torch.Generator().manual_seed(seed)
    for alpha in ALPHAS:
        gamma = torch._standard_gamma(
            torch.full((problems, SIZE, SIZE), alpha, dtype=torch.float64), generator=source
        )
        logits = (gamma / gamma.sum(-1, keepdim=True)).clamp_min(1e-30).log()
        truth = _gradients("exact", logits, 1, source)[0]
        for name in estimators:
            found = _gradients(name, logits, replicates, source)
            bias = (found.mean(0) - truth).flatten(1).norm(dim=-1)
            error = (found.var(0).sum((-2, -1)) / replicates).sqrt()
            # What has no variance is not free of rounding.
            rounding = ROUNDING * truth.flatten(1).norm(dim=-1)
            relative = float((bias / error.maximum(rounding)).mean())
            yield ToyResult(name, alpha, found.var(0), relative)


def _gradients(
    estimator: str, logits: Tensor, replicates: int, generator: torch.Generator
) -> Tensor:
    """Independent estimates of the gradient, ``[replicates, problems, D, C]``."""
    many = logits.expand(replicates, *logits.shape).clone().requires_grad_()
    value = carms.expectation(f, many, estimator, samples=SIZE, generator=generator)
    return torch.autograd.grad(value.sum(), many)[0]


def draw_toy(results: Sequence[ToyResult], out: Path) -> list[Path]:
    """Draw a box for each estimator and alpha: the variances of all logits' gradients."""
    names = list(dict.fromkeys(result.estimator for result in results))
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        own = [result for result in results if result.estimator == name]
        axes.boxplot(
            [result.variances.flatten().clamp_min(1e-30).tolist() for result in own],
            positions=[i + (k - (len(names) - 1) / 2) * width for i in range(len(own))],
            widths=0.85 * width,
            whis=(5, 95),
            patch_artist=True,
            showfliers=False,
            boxprops={"facecolor": colour(name), "edgecolor": colour(name)},
            medianprops={"color": "white"},
        )
        axes.plot([], [], "s", color=colour(name), label=name)
    plain_log_axis(axes)
    axes.set_xticks(range(len(ALPHAS)), [f"{alpha:,g}" for alpha in ALPHAS])
    axes.set_xlabel(r"$\alpha$ of $p \sim$ Dir($\alpha$), from low entropy to nearly uniform")
    axes.set_ylabel("variance of a logit's gradient")
    axes.set_title("Toy problem of the paper: 3 variables, 3 categories, 3 samples")
    axes.grid(axis="y", alpha=0.3)
    figure.legend(
        loc="outside lower center",
        ncols=min(6, len(names)),
        frameon=False,
        title="over problems and logits: box with quartiles and median, whiskers from 5% to 95%",
    )
    return save_figure(figure, out)
