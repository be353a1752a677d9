"""Variance of the gradient relative to RLOO's, and the choice of epsilon."""

import argparse
import statistics
from dataclasses import replace

import torch
from timing import print_table
from torch import Tensor

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import Rollouts, default_epsilon, pair_ratio
from rollouts.problems import KINDS, Problem, random_problems

EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
# What the means should reach, and what no single problem should exceed.
LIMITS = {
    **{(kind, 4): 1.0 for kind in KINDS},
    ("peaked, sparse", 16): 0.75,
    ("peaked, sparse", 32): 0.65,
}
WORST = 1.2
# Number of rollouts drawn at a time, for the processor's cache.
CHUNK = 8000


def squares(problem: Problem, products: Tensor, group: Rollouts, epsilons: list[float]) -> Tensor:
    """Mean squared length of the gradient for each epsilon, from the same rollouts."""
    index = problem.index(group.tokens)
    rewards, samples = problem.rewards[index], group.samples
    difference = (rewards.unsqueeze(-1) - rewards.unsqueeze(-2)) / (samples * (samples - 1))
    inner = products[index.unsqueeze(-1), index.unsqueeze(-2)]
    # The same as `advantages` for each epsilon, but the intervals are compared only once.
    lift = pair_ratio(replace(group, epsilon=0.0)).reciprocal()
    found = []
    for epsilon in epsilons:
        weights = (difference / ((1 - epsilon) * lift + epsilon)).sum(-1)
        found.append(torch.einsum("pi,pij,pj->", weights, inner, weights) / len(index))
    return torch.stack(found)


def ratios(problem: Problem, samples: int, epsilons: list[float], groups: int) -> dict:
    """Total variance for each epsilon, relative to that of independent rollouts (epsilon 1).

    A group is independent with probability epsilon, so that two draws serve every epsilon.
    """
    _, scores = problem.probs_and_scores()
    truth = problem.gradient().square().sum()
    products, every = scores @ scores.T, torch.tensor([*epsilons, 1.0])
    total = torch.zeros(len(every)).double()
    chunk = max(1, CHUNK // samples)
    for _ in range(groups // chunk):
        for epsilon, weight in ((0.0, 1 - every), (1.0, every)):
            group = problem.draw(chunk, samples, epsilon)
            total += weight * squares(problem, products, group, every.tolist())
    variances = total / (groups // chunk) - truth
    return dict(zip(epsilons, (variances / variances[-1]).tolist(), strict=False))


def plain_bias(problem: Problem, samples: int, epsilon: float) -> float:
    """Exact bias of plain leave-one-out on correlated rollouts, relative to the gradient."""
    probs, scores = problem.probs_and_scores()
    table = InverseCDF(Circular(samples), epsilon=epsilon).pmf(probs)
    truth = problem.gradient()
    plain = (probs * problem.rewards - table @ problem.rewards) @ scores
    return float((plain - truth).norm() / truth.norm())


def measure(
    kind: str, problems: list[Problem], samples: int, rows: int, limited: bool
) -> tuple[list[str], list[str]]:
    """Cells of both tables: for the default epsilon, and for all of ``EPSILONS``."""
    chosen = default_epsilon(samples)
    epsilons = sorted({*EPSILONS, chosen})
    found = [ratios(problem, samples, epsilons, rows // samples) for problem in problems]
    means = {e: statistics.mean(each[e] for each in found) for e in epsilons}
    most = {e: max(each[e] for each in found) for e in epsilons}
    bias = statistics.median(plain_bias(each, samples, chosen) for each in problems)
    limit = LIMITS.get((kind, samples)) if limited else None
    by_default = [
        f"{chosen:.3g}",
        f"{means[chosen]:.3f}" + (f" (<= {limit:g})" if limit else ""),
        f"{most[chosen]:.2f} (<= {WORST:g})",
        f"{bias:.1%}",
    ]
    return by_default, [f"{means[e]:.2f} {most[e]:.2f}" for e in EPSILONS]


def variance_tables(arguments: argparse.Namespace) -> None:
    by_default, by_epsilon = [], []
    shape = arguments.vocabulary, arguments.length
    for kind in KINDS:
        problems = random_problems(kind, *shape, arguments.problems)
        for samples in arguments.samples:
            found = measure(kind, problems, samples, arguments.rows, limited=shape == (4, 4))
            for table, cells in zip((by_default, by_epsilon), found, strict=True):
                table.append([kind, str(samples), *cells])
    what = (
        f"{arguments.problems} random problems each, vocabulary {arguments.vocabulary}, length "
        f"{arguments.length}, {arguments.rows} rollouts"
    )
    print_table(
        f"Gradient variance / RLOO's at equal rollouts, default epsilon; {what}",
        ["policy, rewards", "N", "epsilon", "mean", "largest", "bias of plain leave-one-out"],
        by_default,
    )
    print_table(
        "The same for other epsilons: mean and largest",
        ["policy, rewards", "N", *[f"{e:g}" for e in EPSILONS]],
        by_epsilon,
    )
