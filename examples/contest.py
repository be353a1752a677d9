"""A contest of estimators: train with each of them and several seeds, and print who wins.

The other examples say what is trained; this file has their command line and their common parts.
"""

import argparse
import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from torch import Tensor


@dataclass(frozen=True)
class Outcome:
    """The score of a training run, and a picture of what it has learned."""

    score: float
    picture: Tensor


Outcomes = dict[str, list[Outcome]]
"""Outcomes of each estimator, in the order of seeds."""


def compete(
    description: str,
    train: Callable[[str, int, int], Outcome],
    estimators: Iterable[str],
    draw: Callable[[Outcomes, Path], None],
    score: str,
    *,
    steps: int,
    out: str,
    higher_wins: bool = True,
) -> None:
    """Read the command line, train with every estimator and seed, print who wins, and draw."""
    chosen = options(description, steps, out)
    found = contest(train, list(estimators), chosen.steps, chosen.seeds)
    verdict(found, score, higher_wins)
    draw(found, chosen.out)


def options(description: str, steps: int, out: str) -> argparse.Namespace:
    """Read the options of an example: ``steps``, ``seeds`` and ``out``."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps, help="steps of training (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="runs per estimator (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path(out), help="the picture (%(default)s)")
    return parser.parse_args()


def contest(
    train: Callable[[str, int, int], Outcome], estimators: Sequence[str], steps: int, seeds: int
) -> Outcomes:
    """Call ``train(estimator, seed, steps)`` on all cores, and print each score as it comes."""
    jobs = [(name, seed) for seed in range(seeds) for name in estimators]
    found: Outcomes = {name: [] for name in estimators}
    workers = min(len(jobs), os.cpu_count() or 1)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (1,)) as pool:
        outcomes = pool.map(train, *zip(*jobs, strict=True), [steps] * len(jobs))
        for (name, seed), outcome in zip(jobs, outcomes, strict=True):
            found[name].append(outcome)
            print(f"{name}, seed {seed}: {outcome.score:.4g}", flush=True)
    return found


def verdict(found: Outcomes, score: str, higher_wins: bool) -> None:
    """Print the mean scores, and the lead of the best over each other one, seed by seed.

    A lead is called clear if it is more than three of its standard errors.
    """
    sign = 1 if higher_wins else -1
    scores = {name: [one.score for one in group] for name, group in found.items()}
    best, *others = sorted(scores, key=lambda name: -sign * statistics.mean(scores[name]))
    print(f"\n{score}, {'higher' if higher_wins else 'lower'} is better; mean and standard error")
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


def draw_learning_curves(
    axes: Axes, found: Outcomes, colours: Mapping[str, str], every: int
) -> None:
    """Draw pictures that are scores, one every ``every`` steps, with bands over seeds."""
    for name, group in found.items():
        curves = torch.stack([one.picture for one in group])
        steps, shade = every * torch.arange(curves.shape[1]), colours[name]
        axes.fill_between(steps, curves.amin(0), curves.amax(0), color=shade, alpha=0.13, lw=0)
        axes.plot(steps, curves.mean(0), color=shade, lw=2, label=name)
    axes.set(xlabel="step", xlim=(0, None))
    axes.legend(frameon=False, loc="best", title=f"mean and range over {len(group)} seeds")
    axes.spines[["top", "right"]].set_visible(False)


def _mean(values: list[float]) -> str:
    return f"{statistics.mean(values):.4g} +- {_standard_error(values):.2g}"


def _standard_error(values: list[float]) -> float:
    """Standard error of the mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    return statistics.stdev(values) / math.sqrt(len(values))
