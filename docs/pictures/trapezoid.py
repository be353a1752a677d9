"""Draws trapezoid.svg: the trapezoid rule on one pair, and what it does to the variance."""

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

import carms

VARIABLES, CATEGORIES, SAMPLES, BATCH, HIDDEN = 20, 10, 10, 50, 32
STEEPNESS = (0.3, 0.5, 0.8, 1.3, 2.0, 3.2, 5.0, 8.0)
CALLS = 40
# A steeper network has too much noise for the bias of T to be seen.
BIAS_UP_TO = 2.0
# Okabe and Ito's colours, told apart by everybody.
BLACK, ORANGE, GREEN, BLUE, RED = "#000000", "#E69F00", "#009E73", "#0072B2", "#D55E00"
GREY = "#777777"
# Label, name, options, colour, line.
LINES = (
    ("carms-s", "carms-s", {}, RED, "-"),
    ("carms-t", "carms-t", {}, BLUE, "-"),
    ("T, independent", "reinmax", {}, ORANGE, "--"),
    ("T, circular", "reinmax", {"coupling": "circular"}, GREEN, "--"),
)


def edge(axes: plt.Axes) -> None:
    """``f`` on the way from one category to another, and what its slopes at the ends tell."""

    def f(t: float | np.ndarray) -> float | np.ndarray:
        return 0.1 * t + 1.5 * t**2 - 0.7 * t**3

    def slope(t: float) -> float:
        return 0.1 + 3 * t - 2.1 * t**2

    t, mean = np.linspace(0, 1, 200), (slope(0) + slope(1)) / 2
    axes.plot(t, f(t), color=BLACK, lw=2)
    axes.plot([0, 1], [0, f(1)], color=GREY, lw=1, ls=":")
    axes.plot([0, 1], [0, mean], color=BLUE, lw=2)
    for at in (0, 1):
        reach = np.array([-0.1, 0.34]) if at == 0 else np.array([-0.3, 0.12])
        axes.plot(at + reach, f(at) + slope(at) * reach, color=ORANGE, lw=2)
    axes.plot([0, 1], [0, f(1)], "o", color=BLACK, ms=7, zorder=3)
    axes.plot([1.07, 1.07], [mean, f(1)], color=RED, lw=2)
    for end in (mean, f(1)):
        axes.plot([1.045, 1.095], [end, end], color=RED, lw=2)
    axes.text(1.11, (mean + f(1)) / 2, "r", color=RED, va="center", size=13, style="italic")
    axes.text(-0.05, 0.09, "$f_c$", ha="center", size=12)
    axes.text(0.93, f(1) + 0.06, "$f_i$", ha="center", size=12)
    axes.text(0.2, -0.09, "slope at c", color=ORANGE, ha="center", size=10)
    axes.text(0.8, 0.94, "slope at i", color=ORANGE, ha="right", size=10)
    axes.text(0.62, 0.21, "mean of both\nslopes", color=BLUE, ha="left", va="center", size=10)
    axes.text(0.33, 0.43, "$f_i - f_c$", color=GREY, ha="right", size=10)
    axes.text(0.76, 0.5, "f", style="italic", size=12)
    axes.plot([0, 1], [-0.2, -0.2], color=GREY, lw=1, clip_on=False)
    for at, name in ((0, "$e_c$"), (1, "$e_i$")):
        axes.plot([at, at], [-0.22, -0.18], color=GREY, lw=1)
        axes.text(at, -0.25, name, ha="center", va="top", size=12)
    axes.set(xlim=(-0.14, 1.2), ylim=(-0.36, 1.1))
    axes.set_title("One pair: what the slopes leave out is r", size=11)
    axes.axis("off")


def network(steepness: float) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A two-layer network with random weights, and logits of a batch with ``p ~ Dir(1)``."""
    source = torch.Generator().manual_seed(0)
    first = torch.randn(VARIABLES * CATEGORIES, HIDDEN, generator=source) / VARIABLES**0.5
    last = torch.randn(HIDDEN, generator=source)
    exponentials = -torch.rand(BATCH, VARIABLES, CATEGORIES, generator=source).log()

    def f(z: Tensor) -> Tensor:
        return (steepness * (z.flatten(-2) @ first)).tanh() @ last

    return f, exponentials.log()


def variance(name: str, f: Callable[[Tensor], Tensor], logits: Tensor, **options: str) -> float:
    """Variance of the gradient, summed over logits and examples; each call is one batch."""
    estimator, found = carms.make(name, samples=SAMPLES, **options), []
    for _ in range(CALLS):
        leaf = logits.clone().requires_grad_()
        estimator.expectation(f, leaf).sum().backward()
        found.append(leaf.grad)
    return float(torch.stack(found).var(0).sum())


def relative_bias(f: Callable[[Tensor], Tensor], logits: Tensor, draws: int = 400) -> float:
    """Bias of T, as a share of the gradient's norm."""
    # The product of two independent halves: the square of one would add its noise.
    first, second = (bias_and_gradient(f, logits, draws // 2) for _ in range(2))
    bias, gradient = ((one * other).sum().item() for one, other in zip(first, second, strict=True))
    return float(max(bias, 0) / gradient) ** 0.5


def bias_and_gradient(
    f: Callable[[Tensor], Tensor], logits: Tensor, draws: int
) -> tuple[Tensor, Tensor]:
    """Of T and of f, times ``draws``, from r and the values of all neighbours of samples."""
    probs, places = logits.softmax(-1), torch.arange(VARIABLES)
    bias, gradient = torch.zeros(2, *probs.shape)
    for _ in range(draws):
        z = torch.distributions.OneHotCategorical(probs).sample()
        # Row [d, c] has category c in place of variable d.
        around = z[:, None, None].repeat(1, VARIABLES, CATEGORIES, 1, 1)
        around[:, places, :, places] = torch.eye(CATEGORIES)
        around.requires_grad_()
        values = f(around)
        slopes = torch.autograd.grad(values.sum(), around)[0][:, places, :, places].movedim(0, 1)
        values = values.detach()
        # From row [d, c] to the drawn category.
        there = (slopes * z[..., None, :]).sum(-1) - slopes.diagonal(dim1=-2, dim2=-1)
        here = (z[..., None] * slopes).sum(-2)
        here = (here * z).sum(-1, keepdim=True) - here
        rest = (values * z).sum(-1, keepdim=True) - values - (here + there) / 2
        weighed = probs * rest
        bias -= (weighed.sum(-1, keepdim=True) * z - weighed) / 2
        gradient += probs * (values - (probs * values).sum(-1, keepdim=True))
    return bias, gradient


def compare(axes: plt.Axes) -> None:
    """Variances relative to ``loorf``, over the steepness of a random network."""
    found: dict[str, list[float]] = {label: [] for label, *_ in LINES}
    for steepness in STEEPNESS:
        f, logits = network(steepness)
        loorf = variance("loorf", f, logits)
        for label, name, options, *_ in LINES:
            found[label].append(variance(name, f, logits, **options) / loorf)
        row = "  ".join(f"{label} {values[-1]:.4f}" for label, values in found.items())
        if steepness <= BIAS_UP_TO:
            row += f"  bias of T {relative_bias(f, logits[:5]):.3f}"
        print(f"{steepness}  {row}")
    for label, _, _, colour, line in LINES:
        axes.plot(STEEPNESS, found[label], line, color=colour, lw=2)
    axes.axhline(1, color=GREY, lw=0.8, zorder=0)
    names = {"carms-s": (0.3, 0.55), "carms-t": (0.72, 0.065), "T, independent": (2.9, 0.078),
             "T, circular": (2.9, 0.0075)}  # fmt: skip
    for label, _, _, colour, line in LINES:
        said = f"{label}\n(biased)" if line == "--" else label
        axes.text(*names[label], said, color=colour, size=10, va="bottom", linespacing=1)
    axes.text(0.3, 1.15, "loorf", color=GREY, size=10)
    axes.set(xscale="log", yscale="log", ylim=(0.003, 2), xlabel="steepness of f")
    axes.set_xticks([0.3, 1, 3, 8], ["0.3", "1", "3", "8"])
    axes.set_yticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("Variance, loorf = 1", size=11)


def main() -> None:
    """Write the picture beside this file."""
    torch.set_num_threads(1)  # The tensors are small.
    torch.manual_seed(0)
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "trapezoid"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.9), width_ratios=[1.15, 1])
    edge(left)
    compare(right)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
