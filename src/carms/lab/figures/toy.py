"""The paper's toy problem: how much do estimators of the same gradient vary?

``f(z) = sum_d sum_c d c z_dc`` with three variables of three categories, three samples, and
``p ~ Dir(alpha)`` from low entropy (alpha = 1) to nearly uniform (alpha = 1000). Prints the bias
and variance of each estimator, and draws the variances of all logits as a box plot.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import carms
from carms.lab.figures.figures import colour, save_figure

__all__ = ["ALPHAS", "ToyResult", "draw_toy", "run_toy"]

SIZE = 3
ALPHAS = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class ToyResult:
    """Of one estimator at one alpha.

    Attributes:
        variances: of the gradient, ``[problems, D, C]``.
        bias: length of the mean gradient minus the exact one, over its standard error; about 1 is
            what chance alone gives.
    """

    estimator: str
    alpha: float
    variances: Tensor
    bias: float


def f(z: Tensor) -> Tensor:
    """The objective of the paper."""
    number = torch.arange(1, SIZE + 1, dtype=z.dtype)
    return torch.einsum("...dc,d,c->...", z, number, number)


def run_toy(
    estimators: Sequence[str], problems: int, replicates: int, seed: int
) -> Iterable[ToyResult]:
    """All estimators on the same random problems, one result after the other."""
    source = torch.Generator().manual_seed(seed)
    for alpha in ALPHAS:
        gamma = torch._standard_gamma(
            torch.full((problems, SIZE, SIZE), alpha, dtype=torch.float64), generator=source
        )
        logits = (gamma / gamma.sum(-1, keepdim=True)).clamp_min(1e-30).log()
        truth = _gradients("exact", logits, 1, source)[0]
        for name in estimators:
            found = _gradients(name, logits, replicates, source)
            error = (found.var(0).sum((-2, -1)) / replicates).sqrt()
            bias = (found.mean(0) - truth).flatten(1).norm(dim=-1)
            yield ToyResult(name, alpha, found.var(0), float((bias / error).mean()))


def _gradients(
    estimator: str, logits: Tensor, replicates: int, generator: torch.Generator
) -> Tensor:
    """Independent estimates of the gradient, ``[replicates, problems, D, C]``."""
    many = logits.expand(replicates, *logits.shape).clone().requires_grad_()
    value = carms.expectation(f, many, estimator, samples=SIZE, generator=generator)
    return torch.autograd.grad(value.sum(), many)[0]


def draw_toy(results: Sequence[ToyResult], out: Path) -> list[Path]:
    """A box for each estimator and alpha: the variance of each logit's gradient."""
    names = list(dict.fromkeys(result.estimator for result in results))
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        own = [result for result in results if result.estimator == name]
        boxes = axes.boxplot(
            [result.variances.flatten().clamp_min(1e-30).log10().tolist() for result in own],
            positions=[i + (k - (len(names) - 1) / 2) * width for i in range(len(own))],
            widths=0.85 * width,
            patch_artist=True,
            showfliers=False,
            medianprops={"color": "white"},
        )
        for box in boxes["boxes"]:
            box.set(facecolor=colour(name), edgecolor=colour(name))
        axes.plot([], [], "s", color=colour(name), label=name)
    axes.set_xticks(range(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS])
    axes.set_xlabel(r"$\alpha$ of $p \sim$ Dir($\alpha$): low entropy to nearly uniform")
    axes.set_ylabel("log10 variance of a logit's gradient")
    axes.set_title("Toy problem, C = D = N = 3")
    axes.legend(ncols=len(names), frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    axes.grid(axis="y", alpha=0.3)
    return save_figure(figure, out)
