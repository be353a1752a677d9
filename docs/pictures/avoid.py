"""Samples that avoid each other, and what that does to the variance of a gradient."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from carms.lab.figures.figures import colour
from matplotlib.axes import Axes

import carms

COUNT, DRAWS, PROBLEMS = 10, 24, 20
SAMPLES = (4, 6, 8, 10, 12, 16)


def dots(axes: Axes, name: str, title: str) -> None:
    """A column for each draw of ten samples; a dot grows with how often its category was drawn."""
    logits = torch.zeros(DRAWS, 1, COUNT)
    source = torch.Generator().manual_seed(1)
    indices = carms.make(name, samples=COUNT).sample(logits, source).indices.squeeze(-1)
    counts = torch.nn.functional.one_hot(indices, COUNT).sum(0)
    draw, category = counts.nonzero().T
    axes.scatter(draw, category, 14 * counts[draw, category] ** 1.6, colour(name), linewidth=0)
    many = carms.make(name, samples=COUNT).sample(torch.zeros(20000, 1, COUNT), source).indices
    seen = (torch.nn.functional.one_hot(many.squeeze(-1), COUNT).sum(0) > 0).sum(-1).float().mean()
    axes.set(
        title=f"{title} {seen:.1f} of 10 categories",
        xlabel="draw of ten samples",
        ylabel="category",
    )
    axes.set(xticks=[], yticks=range(COUNT))


def variance(name: str, samples: int) -> float:
    """Of the gradient of random functions of one variable, summed over problems."""
    total = 0.0
    for seed in range(PROBLEMS):
        source = torch.Generator().manual_seed(seed)
        f = torch.randn(COUNT, generator=source)
        exponentials = -torch.rand(COUNT, generator=source).log()  # so p ~ Dir(1)
        many = exponentials.log().expand(4000, 1, COUNT).clone().requires_grad_()
        carms.expectation(lambda z, f=f: (z @ f).squeeze(-1), many, name, samples).sum().backward()
        total += float(many.grad.var(0).sum())
    return total


def main() -> None:
    """Draw it beside this file."""
    torch.manual_seed(0)
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
    dots(left, "loorf", "independent samples see")
    dots(middle, "carms-s", "carms-s sees")
    for name in ("loorf", "carms-s"):
        found = [variance(name, samples) for samples in SAMPLES]
        right.plot(SAMPLES, found, "o-", color=colour(name), label=name)
        print(name, [round(each, 3) for each in found])
    right.set(title="variance of the gradient", xlabel="samples", yscale="log", xticks=SAMPLES)
    right.set_yticks([0.2, 0.5, 1, 2, 4], ["0.2", "0.5", "1", "2", "4"])
    right.minorticks_off()
    right.legend(frameon=False)
    figure.savefig(Path(__file__).with_name("avoid.png"), dpi=110)


if __name__ == "__main__":
    main()
