"""Draw what slopes and terms gain in training: a VAE on MNIST, and the README's program.

The runs of the VAE are made by ``carms vae`` below ``runs/first``. The same command again draws
finished runs and resumes the others.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

import carms

RUNS = Path("runs/first")
# Times of a step relative to one another, written by benchmarks/training.py.
TIMES = Path(__file__).parents[1] / "results" / "training_times.csv"
SEEDS, STEPS, EVERY = 5, 2000, 100
# The best of 3e-4, 1e-3 and 3e-3 for ``loorf`` with four evaluations and another seed.
RATE = 1e-3
# Estimator and evaluations of the decoder for each image and step, with Okabe and Ito's colours.
VARIANTS = {("loorf", 4): "#999999", ("loorf", 10): "#000000", ("carms-t", 4): "#0072B2"}
PROGRAMS, UPDATES = 20, 200
WAYS = {
    ("loorf", False): ("loorf", "#000000"),
    ("carms-s", False): ("carms-s, the default", "#D55E00"),
    ("carms-s", True): ("carms-s with terms", "#0072B2"),
}


def train_vae(estimator: str, samples: int, seed: int) -> Tensor:
    """Bound of 1,000 test images at each evaluation of one run."""
    out = RUNS / f"{estimator}-{samples}-{seed}"
    settings = {
        "estimator": estimator,
        "samples": samples,
        "seed": seed,
        "rate": RATE,
        "steps": STEPS,
        "log-every": EVERY,
        "eval-every": EVERY,
        "eval-samples": 1,
        "checkpoint-every": 500,
        "out": out,
    }
    options = [str(word) for key, value in settings.items() for word in (f"--{key}", value)]
    if not (out / "result.json").exists():
        subprocess.run([sys.executable, "-m", "carms", "vae", *options], check=True)
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return torch.tensor([json.loads(line)["test_bound"] for line in lines])


def at_equal_time(bounds: Tensor, estimator: str, samples: int) -> float:
    """Bound after the time of ``STEPS`` steps of ``loorf`` with four evaluations."""
    with TIMES.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["network"] == "nonlinear"]
    times = {(row["estimator"], int(row["samples"])): float(row["time"]) for row in rows}
    place = STEPS / EVERY * times["loorf", 4] / times[estimator, samples] - 1
    below = min(int(place), len(bounds) - 2)
    return float(bounds[below].lerp(bounds[below + 1], place - below))


def guess(estimator: str, by_term: bool) -> Tensor:
    """Wrong guesses of the README's program at every step, for several seeds at once."""
    source = torch.Generator().manual_seed(0)
    logits = torch.zeros(PROGRAMS, 20, 10, requires_grad=True)
    target = torch.randint(10, (PROGRAMS, 20), generator=source)
    optimiser = torch.optim.Adam([logits], lr=0.1)

    def f(z: Tensor) -> Tensor:
        wrong = (z.argmax(-1) != target).float()
        return -wrong if by_term else -wrong.sum(-1)

    terms = torch.eye(20) if by_term else None
    values = []
    for _ in range(UPDATES):
        value = carms.expectation(f, logits, estimator, 8, generator=source, terms=terms)
        optimiser.zero_grad()
        (-value.sum()).backward()
        optimiser.step()
        values.append(-value.detach())
    return torch.stack(values, -1)


def draw_band(axes: Axes, x: range, seeds: Tensor, label: str, colour: str) -> None:
    """Mean over seeds, and a band of one standard deviation to both sides."""
    mean, deviation = seeds.mean(0), seeds.std(0)
    axes.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean, color=colour, label=label)


def main() -> None:
    """Train what is missing, and draw it beside this file."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    every = [(*variant, seed) for seed in range(SEEDS) for variant in VARIANTS]
    runs = {run: train_vae(*run) for run in every}
    for (estimator, samples), colour in VARIANTS.items():
        seeds = torch.stack([runs[estimator, samples, seed] for seed in range(SEEDS)])
        label = f"{estimator}, {samples} evaluations"
        draw_band(left, range(EVERY, STEPS + 1, EVERY), seeds, label, colour)
        mean, deviation = seeds[:, -1].mean(), seeds[:, -1].std()
        equal = at_equal_time(seeds.mean(0), estimator, samples)
        print(f"{label}: {mean:.1f} +- {deviation:.1f}, at equal time {equal:.1f}")
    left.set(
        title=f"Slopes: discrete VAE on MNIST, {SEEDS} seeds",
        xlabel="step",
        ylabel="bound of test images, nats",
        ylim=(-150, None),
    )
    for (estimator, by_term), (label, colour) in WAYS.items():
        wrong = guess(estimator, by_term)
        draw_band(right, range(UPDATES), wrong, label, colour)
        print(f"{label}: {wrong[:, 50].mean():.1f} wrong after 50 steps")
    right.set(
        title=f"Terms: 20 guesses, 8 evaluations, {PROGRAMS} seeds",
        xlabel="step",
        ylabel="wrong guesses",
    )
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_name("first.png"), dpi=100)


if __name__ == "__main__":
    main()
