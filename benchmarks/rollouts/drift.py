"""Ratios recomputed from logits that differ a little from those of the draw."""

import argparse
import statistics

import torch
from timing import print_table
from torch import Tensor

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import Rollouts, default_epsilon, drift, pair_ratio, places, ratios
from rollouts.problems import Problem, random_problems


def noisy(problem: Problem, noise: float) -> Problem:
    """The same problem with noise on its logits, as from the kernels of another program."""
    logits = [each + noise * torch.randn_like(each) for each in problem.logits]
    return Problem(logits, problem.rewards)


def recomputed(problem: Problem, group: Rollouts) -> tuple[Tensor, Tensor]:
    """Pair ratios of finished rollouts under the logits of this problem, and their drift."""
    steps = range(group.tokens.shape[-1])
    rows = group.tokens.flatten(0, 1)
    logits = torch.stack([problem.step(rows[:, :t], None)[0] for t in steps], 1)
    found = places(logits.view(*group.tokens.shape, -1), group.tokens)
    return (
        ratios(group.tokens, *found, epsilon=group.epsilon),
        drift(found.probability, group.shares),
    )


def gradient_of_pairs(problem: Problem, pairs: Tensor) -> Tensor:
    """``sum_ab W_ab (r_a - r_b) (s_a - s_b) / 2`` for symmetric weights of all pairs."""
    scores, rewards = problem.probs_and_scores()[1], problem.rewards
    return ((pairs.sum(-1) * rewards) - pairs @ rewards) @ scores


def pair_weights(drawn: Problem, trained: Problem, samples: int) -> Tensor:
    """``P(a, b) R'(a, b)``: drawn by one problem, ratios computed by the other."""
    coupling = InverseCDF(Circular(samples), epsilon=default_epsilon(samples))
    q, p = (problem.probs_and_scores()[0] for problem in (drawn, trained))
    ratio = torch.outer(p, p) / coupling.pmf(p)
    return coupling.pmf(q) * ratio


def relative_bias(problem: Problem, pairs: Tensor) -> float:
    truth = problem.gradient()
    return float((gradient_of_pairs(problem, pairs) - truth).norm() / truth.norm())


def measure(problems: list[Problem], samples: int, noise: float) -> list[str]:
    """Cells of a row: drift, errors of the ratios, and biases without and with correlation."""
    errors, moved, biases = [], [], []
    for problem in problems:
        other = noisy(problem, noise)
        group = problem.draw(200, samples, default_epsilon(samples))
        ratio, distance = recomputed(other, group)
        errors.append((ratio / pair_ratio(group) - 1).abs().flatten())
        moved.append(distance.mean().item())
        q, _ = problem.probs_and_scores()
        pairs = torch.outer(q, q), pair_weights(problem, other, samples)
        biases.append([relative_bias(other, weights) for weights in pairs])
    error = torch.cat(errors)
    return [
        f"{statistics.mean(moved):.1e}",
        f"{error.mean():.1e}",
        f"{error.max():.1e}",
        *[f"{statistics.median(each):.2%}" for each in zip(*biases, strict=True)],
    ]


def drift_table(arguments: argparse.Namespace) -> None:
    rows = []
    for kind in ("peaked, dense", "flat, dense"):
        shape = arguments.vocabulary, arguments.length
        problems = random_problems(kind, *shape, arguments.problems)
        for samples in (8, 32):
            for noise in (1e-3, 1e-2, 1e-1):
                rows.append([kind, str(samples), f"{noise:g}", *measure(problems, samples, noise)])
    print_table(
        "Ratios recomputed from logits with noise; bias relative to the gradient, median over "
        f"{arguments.problems} problems",
        [
            "policy, rewards",
            "N",
            "noise of logits",
            "drift",
            "error of ratios",
            "largest",
            "bias, independent",
            "bias, correlated",
        ],
        rows,
    )
