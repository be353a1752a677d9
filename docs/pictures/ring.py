"""Draws ring.svg: sequences as intervals, and the points of the circular copula among them."""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

TOKENS, LENGTH, SAMPLES = "abc", 3, 5
FIRST, SECOND = "#c4482f", "#2f6fc4"


def intervals(rng: np.random.Generator) -> list[list[tuple[str, float, float]]]:
    """Per length, every prefix with the start and the end of its interval."""
    levels = [[("", 0.0, 1.0)]]
    for _ in range(LENGTH):
        following = []
        for prefix, low, high in levels[-1]:
            cuts = low + (high - low) * np.cumsum([0, *rng.dirichlet([1.5] * len(TOKENS))])
            names = [prefix + token for token in TOKENS]
            following += list(zip(names, cuts[:-1], cuts[1:], strict=True))
        levels.append(following)
    return levels[1:]


def bars(axes: plt.Axes, levels: list, points: np.ndarray) -> None:
    """The intervals of all prefixes, one row per length, and the points that choose among them."""
    for depth, level in enumerate(levels):
        for k, (name, low, high) in enumerate(level):
            shade = ("#f3f1ea", "#e4e0d3", "#d3cdbb")[k % 3]
            axes.add_patch(plt.Rectangle((low, -depth), high - low, 0.86, fc=shade, ec="white"))
            if high - low > 0.03:
                axes.text((low + high) / 2, 0.43 - depth, name, ha="center", va="center", size=8)
    for k, point in enumerate(points):
        colour = {0: FIRST, 1: SECOND}.get(k, "#555555")
        axes.plot([point, point], [-LENGTH + 0.93, 1.1], color=colour, lw=1.4 if k < 2 else 0.8)
        axes.text(point, 1.16, f"$u_{k + 1}$", color=colour, ha="center", size=10)
    axes.set(xlim=(0, 1), ylim=(-LENGTH + 0.6, 1.4))
    axes.set_title("A sequence is an interval; a point chooses it token by token", size=10)
    axes.axis("off")


def ring(axes: plt.Axes, leaves: list, points: np.ndarray, turn: float) -> None:
    """The same line bent round: one point in each of the turned strata."""
    circle = np.linspace(0, 1, 200)
    angle = np.pi / 2 - 2 * np.pi * circle
    axes.plot(np.cos(angle), np.sin(angle), color="#d3cdbb", lw=9)
    for k in range(SAMPLES):
        edge = np.pi / 2 - 2 * np.pi * (turn + k / SAMPLES)
        axes.plot(*np.outer([np.cos(edge), np.sin(edge)], [0.86, 1.14]), color="#777777", lw=0.8)
    for k, point in enumerate(points):
        colour = {0: FIRST, 1: SECOND}.get(k, "#555555")
        if k < 2:
            _, low, high = next(leaf for leaf in leaves if leaf[1] <= point < leaf[2])
            arc = np.pi / 2 - 2 * np.pi * np.linspace(low, high, 50)
            axes.plot(np.cos(arc), np.sin(arc), color=colour, lw=9, alpha=0.55)
        where = np.pi / 2 - 2 * np.pi * point
        axes.plot(np.cos(where), np.sin(where), "o", color=colour, ms=6)
        axes.text(1.27 * np.cos(where), 1.27 * np.sin(where), f"$u_{k + 1}$", color=colour,
                  ha="center", va="center", size=10)  # fmt: skip
    axes.text(0, 0, "what lies between\nthe two intervals,\nboth ways round,\ngives their ratio",
              ha="center", va="center", size=9)  # fmt: skip
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal")
    axes.set_title("One point in each stratum", size=10)
    axes.axis("off")


def main() -> None:
    """Write the picture beside this file."""
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ring"})
    rng = np.random.default_rng(11)
    levels, turn = intervals(rng), 0.06
    points = ((np.arange(SAMPLES) + rng.random(SAMPLES)) / SAMPLES + turn) % 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[2, 1])
    bars(left, levels, points)
    ring(right, levels[-1], points, turn)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
