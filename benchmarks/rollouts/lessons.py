"""Groups whose rewards are all equal, from which nothing is learned."""

import argparse
import statistics

import torch
from timing import print_table

from carms.sequences import advantages, default_epsilon
from rollouts.problems import Problem

# Vocabulary, length, scale of the logits, and whether there is one right answer, or one in ten.
TASKS = {
    "choice of 4": (4, 1, 1.0, True),
    "tool of 16": (16, 1, 2.0, True),
    "answer of 16": (4, 2, 2.0, True),
    "256 sequences, peaked": (4, 4, 2.0, False),
    "256 sequences, flat": (4, 4, 0.5, False),
}


def task(name: str) -> Problem:
    """A random policy, and right answers to which it gives some probability."""
    vocabulary, length, scale, single = TASKS[name]
    problem = Problem.random(vocabulary, length, scale, not single)
    if single:
        right = problem.probs_and_scores()[0].multinomial(1)
        problem.rewards = torch.zeros_like(problem.rewards).index_fill(0, right, 1.0)
    return problem


def lessons(problem: Problem, samples: int, epsilon: float, groups: int) -> tuple[float, float]:
    """Share of groups whose rewards are all equal, and the others' gradient along the true one."""
    _, scores = problem.probs_and_scores()
    truth = problem.gradient()
    group = problem.draw(groups, samples, epsilon)
    index = problem.index(group.tokens)
    rewards = problem.rewards[index]
    useful = (rewards != rewards[:, :1]).any(-1)
    along = scores @ truth / truth.square().sum()
    each = (advantages(rewards, group) * along[index]).mean(-1)
    return 1 - useful.double().mean().item(), each[useful].mean().item()


def lessons_table(arguments: argparse.Namespace) -> None:
    rows = []
    for name in TASKS:
        problems = [task(name) for _ in range(arguments.problems)]
        for samples in (4, 8, 16):
            groups = min(10_000, arguments.rows // samples)
            independent, correlated, always = (
                [lessons(problem, samples, epsilon, groups) for problem in problems]
                for epsilon in (1.0, default_epsilon(samples), 0.0)
            )
            kinds = independent, correlated, always
            shares = [statistics.mean(share for share, _ in found) for found in kinds]
            lengths = [length for _, length in correlated]
            kept = [length * (1 - share) for share, length in correlated]
            ranges = [f"{min(each):.2f} to {max(each):.2f}" for each in (lengths, kept)]
            rows.append([name, str(samples), *[f"{share:.3f}" for share in shares], *ranges])
    print_table(
        f"Share of groups whose rewards are all equal, mean over {arguments.problems} problems; "
        "and what resampling them does to the gradients of single prompts",
        [
            *("task", "N", "independent", "correlated", "epsilon 0"),
            *("gradient times", "and the share kept"),
        ],
        rows,
    )
