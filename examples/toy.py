"""The paper's toy problem: how much do estimators of the same gradient vary?

``f(z) = sum_d sum_c d c z_dc`` with three variables of three categories, three samples, and
``p ~ Dir(alpha)`` from low entropy (alpha = 1) to nearly uniform (alpha = 1000). Prints the bias
and variance of each estimator, and draws the variances of all logits as a box plot.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import carms

SIZE = 3
ALPHAS = (1.0, 10.0, 100.0, 1000.0)
# Okabe and Ito's colours, told apart by everybody.
COLOURS = {
    "reinforce": "#999999",
    "loorf": "#000000",
    "carms-i": "#0072B2",
    "carms-g": "#009E73",
    "carms-s": "#D55E00",
}


def f(z: Tensor) -> Tensor:
    """The objective of the paper."""
    number = torch.arange(1, SIZE + 1, dtype=z.dtype)
    return torch.einsum("...dc,d,c->...", z, number, number)


def gradients(estimator: str, logits: Tensor, replicates: int) -> Tensor:
    """Independent estimates of the gradient, ``[replicates, D, C]``."""
    many = logits.expand(replicates, *logits.shape).clone().requires_grad_()
    carms.expectation(f, many, estimator, samples=SIZE).sum().backward()
    assert many.grad is not None
    return many.grad


def draw(variances: dict[str, dict[float, Tensor]], path: Path) -> None:
    """A box for each estimator and alpha: the variance of each logit's gradient."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    # Without a baseline the variance is ten times larger: it would hide the others.
    variances = {name: found for name, found in variances.items() if name != "reinforce"}
    width = 0.8 / len(variances)
    for k, (name, by_alpha) in enumerate(variances.items()):
        boxes = axes.boxplot(
            [by_alpha[alpha].flatten().log10().tolist() for alpha in ALPHAS],
            positions=[i + (k - (len(variances) - 1) / 2) * width for i in range(len(ALPHAS))],
            widths=0.85 * width,
            patch_artist=True,
            showfliers=False,
            medianprops={"color": "white"},
        )
        for box in boxes["boxes"]:
            box.set(facecolor=COLOURS[name], edgecolor=COLOURS[name])
        axes.plot([], [], "s", color=COLOURS[name], label=name)
    axes.set_xticks(range(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS])
    axes.set_xlabel(r"$\alpha$ of $p \sim$ Dir($\alpha$): low entropy to nearly uniform")
    axes.set_ylabel("log10 variance of a logit's gradient")
    axes.set_title("Toy problem, C = D = N = 3")
    axes.legend(
        ncols=len(variances), frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15)
    )
    axes.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture")
    parser.add_argument("--problems", type=int, default=50, help="random p for each alpha")
    parser.add_argument("--replicates", type=int, default=1000, help="gradients for each p")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_default_dtype(torch.float64)
    arguments.out.mkdir(parents=True, exist_ok=True)

    variances: dict[str, dict[float, Tensor]] = {name: {} for name in COLOURS}
    errors: dict[str, list[float]] = {name: [] for name in COLOURS}
    work = [(alpha, name) for alpha in ALPHAS for name in COLOURS]
    problems = {
        alpha: torch.distributions.Dirichlet(torch.full((SIZE,), alpha))
        .sample((arguments.problems, SIZE))
        .clamp_min(1e-30)
        .log()
        for alpha in ALPHAS
    }
    for alpha, name in track(work, "Estimating gradients"):
        truth = gradients("exact", problems[alpha], 1)[0]
        found = gradients(name, problems[alpha], arguments.replicates)
        variances[name][alpha] = found.var(0)
        standard_error = (found.var(0).sum((-2, -1)) / arguments.replicates).sqrt()
        bias = (found.mean(0) - truth).flatten(1).norm(dim=-1)
        errors[name].append(float((bias / standard_error).mean()))

    table = Table(title="Variance of the gradient, mean over all logits")
    table.add_column("estimator")
    for alpha in ALPHAS:
        table.add_column(f"alpha = {alpha:g}", justify="right")
    table.add_column("bias / its standard error", justify="right")
    for name in COLOURS:
        cells = [f"{variances[name][alpha].mean():.4f}" for alpha in ALPHAS]
        table.add_row(name, *cells, f"{sum(errors[name]) / len(ALPHAS):.2f}")
    picture = arguments.out / "toy.png"
    draw(variances, picture)
    console = Console()
    console.print(table)
    console.print("A bias of about one standard error is what chance alone gives.")
    console.print(f"The variances of all logits are drawn in {picture}")


if __name__ == "__main__":
    main()
