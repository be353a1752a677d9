"""carms-t on random networks, where it must not be worse than carms-s."""

import statistics

import torch
from shelf import random_network
from timing import print_table
from variance import BATCH, batched_variance

import carms
from models.problems import SAMPLES

# Shapes (D, C) of random networks, and how steep they are.
SHAPES, STEEPNESSES = [(20, 10), (3, 4)], [0.3, 1.0, 3.0, 8.0]
# What the variance of carms-t, relative to that of carms-s on its base samples, must not exceed.
NEVER_WORSE = 1.05


def print_random_networks(problems: int, batches: int) -> None:
    """Print the variance of carms-t relative to that of carms-s with as many base samples."""
    torch.manual_seed(0)
    slopes = carms.make("carms-t", samples=SAMPLES)
    values = carms.make("carms-s", samples=slopes.base)
    rows, worst = [], 0.0
    for variables, categories in SHAPES:
        for steepness in STEEPNESSES:
            ratios = []
            for _ in range(problems):
                f, logits = random_network(variables, categories, steepness)
                one, other = (
                    batched_variance(made, f, logits, batches, one_hot=True)
                    for made in (slopes, values)
                )
                ratios.append(one / other)
            worst = max(worst, *ratios)
            mean = statistics.geometric_mean(ratios)
            label = f"D = {variables}, C = {categories}, steepness {steepness:g}"
            rows.append([label, f"{mean:.3f}", f"{max(ratios):.3f}"])
    print_table(
        f"Random networks: variance of carms-t, N = {SAMPLES}, over that of carms-s, "
        f"N = {slopes.base}; {problems} networks, {batches} batches of {BATCH}",
        ["network", "mean", "largest"],
        rows,
    )
    print(f"largest of all: {worst:.3f} (limit {NEVER_WORSE:g})")
