"""Estimators against each other: every one with every seed, on all cores, and who wins.

The other examples say what is trained; this is the frame around them, with their options.
"""

import argparse
import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor


@dataclass(frozen=True)
class Outcome:
    """What a training run is judged by, and what it has to show."""

    score: float
    picture: Tensor


def options(description: str, steps: int, out: str) -> argparse.Namespace:
    """The command line that all of them have: ``steps``, ``seeds`` and ``out``."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps, help="of a training run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="runs per estimator (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path(out), help="the picture (%(default)s)")
    return parser.parse_args()


def contest(
    train: Callable[[str, int, int], Outcome], estimators: Sequence[str], steps: int, seeds: int
) -> dict[str, list[Outcome]]:
    """What ``train(estimator, seed, steps)`` gives, in order of seeds. Prints them as they come."""
    jobs = [(name, seed) for seed in range(seeds) for name in estimators]
    found: dict[str, list[Outcome]] = {name: [] for name in estimators}
    workers = min(len(jobs), os.cpu_count() or 1)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (1,)) as pool:
        outcomes = pool.map(train, *zip(*jobs, strict=True), [steps] * len(jobs))
        for (name, seed), outcome in zip(jobs, outcomes, strict=True):
            found[name].append(outcome)
            print(f"{name}, seed {seed}: {outcome.score:.4g}", flush=True)
    return found


def verdict(found: dict[str, list[Outcome]], what: str, higher_wins: bool) -> None:
    """Print the mean scores, and the lead of the best over each other one, seed by seed.

    A lead is called clear if it is more than three of its standard errors.
    """
    sign = 1 if higher_wins else -1
    scores = {name: [one.score for one in group] for name, group in found.items()}
    best, *others = sorted(scores, key=lambda name: -sign * statistics.mean(scores[name]))
    print(f"\n{what}, {'higher' if higher_wins else 'lower'} is better; mean and standard error")
    width = max(map(len, scores))
    for name in (best, *others):
        print(f"  {name:{width}}  {_mean(scores[name])}")
    for name in others:
        lead = [sign * (a - b) for a, b in zip(scores[best], scores[name], strict=True)]
        clear = statistics.mean(lead) > 3 * _standard_error(lead)
        won = sum(one > 0 for one in lead)
        print(
            f"{best} leads {name} by {_mean(lead)}, on {won} of {len(lead)} seeds: "
            + ("clear" if clear else "not clear")
        )


def _mean(values: list[float]) -> str:
    return f"{statistics.mean(values):.4g} +- {_standard_error(values):.2g}"


def _standard_error(values: list[float]) -> float:
    """Infinite for a single value, about whose error nothing is known."""
    if len(values) < 2:
        return math.inf
    return statistics.stdev(values) / math.sqrt(len(values))
