"""Train by policy gradient: RLOO against correlated rollouts."""

import multiprocessing
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from carms.lab.cli.bars import progress_bars
from carms.lab.figures.rewards import draw_rewards, spread, steps_to, variance_ratio
from carms.lab.runs.records import last_line
from carms.lab.runs.store import RunDirectory
from carms.lab.sweep.executors import prepare_process
from carms.lab.train.rollouts import Method, RolloutSettings, train

__all__ = ["Rollouts"]

# Rewards on held-out prompts, of which a table says when they were reached.
GOALS = (0.5, 0.8)

Runs = dict[Path, RolloutSettings]


@dataclass(frozen=True)
class Rollouts:
    """Teach a transformer to add by policy gradient alone, with RLOO and with correlated rollouts.

    Two numbers of three digits to the base 4; the reward of an answer is its share of right
    digits. Methods with the same seed have the same first weights and prompts. Finished runs are
    left alone when the same command runs again, others begin anew.

    Attributes:
        out: the directory under which the runs have theirs, and the pictures are.
        methods: rloo for independent rollouts, carms for those of carms.sequences.
        seeds: runs of each method.
        steps: of training.
        samples: rollouts per prompt.
        prompts: per step.
        epsilon: probability that the rollouts of a prompt are independent with carms after all.
        rate: of Adam; the default was chosen with rloo.
        log_every: steps between lines of metrics.
        workers: processes; as many as cores unless told.
    """

    out: Path
    methods: tuple[Method, ...] = ("rloo", "carms")
    seeds: int = 5
    steps: int = 1500
    samples: int = 16
    prompts: int = 16
    epsilon: float | None = None
    rate: float = 5e-4
    log_every: int = 50
    workers: int | None = None

    def run(self, console: Console) -> None:
        for name in ("seeds", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods are rloo, carms or both, got {' '.join(self.methods)}")
        runs = self._runs()
        directories = {path: RunDirectory(path, one.to_json()) for path, one in runs.items()}
        left = {path: one for path, one in runs.items() if directories[path].result is None}
        console.print(f"{len(runs)} runs under {self.out}, {len(runs) - len(left)} finished")
        _follow(console, left, self.workers or os.cpu_count() or 1)
        metrics: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in self.methods}
        for path, one in runs.items():
            metrics[one.method].append(directories[path].metrics)
        console.print(_table(metrics, f"After {self.steps:,} steps, {self.seeds} seeds"))
        console.print(
            "right digits and answers, mean ± deviation over seeds; median of the steps to a share "
            "of right digits (and how many seeds got there); processor time of a step; ratio of "
            "the variance of carms' gradient to that of rloo's at the same parameters, mean over "
            "training",
            highlight=False,
        )
        _print_difference(console, metrics)
        for written in draw_rewards(metrics, self.out / "rewards.png"):
            console.print(f"written to {written}")

    def _runs(self) -> Runs:
        """By seed, so that half of the work compares the methods, too."""
        return {
            self.out / f"{method}-seed{seed}": RolloutSettings(
                method,
                seed,
                self.steps,
                self.samples,
                self.prompts,
                self.epsilon,
                self.rate,
                self.log_every,
            )
            for seed in range(self.seeds)
            for method in self.methods
        }


def work(settings: RolloutSettings, path: Path) -> dict[str, Any]:
    """Train one run, in a process of its own."""
    torch.set_num_threads(1)
    return train(settings, path)


def _follow(console: Console, left: Runs, workers: int) -> None:
    """Train what is left, and tell how it goes: a bar, or a line for each run that ends."""
    quiet = not console.is_terminal
    total = sum(one.steps for one in left.values())
    with progress_bars(console) as progress:
        bar = progress.add_task("steps of all runs", total=total, visible=bool(left))
        for path, result in _outcomes(left, workers):
            if path is not None:
                console.print(
                    f"{path.name}: {result['reward']:.1%} of held-out digits right, "
                    f"{result['solved']:.1%} of answers",
                    highlight=False,
                )
            if not quiet:
                lines = [last_line(path, one.steps, ("reward",)) for path, one in left.items()]
                progress.update(bar, completed=sum(line.get("step", 0) for line in lines))


def _outcomes(left: Runs, workers: int) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Runs and results as they end, and None about once a second."""
    if not left:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=prepare_process) as pool:
        futures = {pool.submit(work, one, path): path for path, one in left.items()}
        try:
            while futures:
                done, _ = wait(futures, timeout=1, return_when=FIRST_COMPLETED)
                for future in done:
                    yield futures.pop(future), future.result()
                yield None, {}
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise ValueError("a process died; the same command goes on") from error
            raise


def _table(metrics: Mapping[str, Sequence[Any]], title: str) -> Table:
    """Means over seeds, with standard deviations; steps to a reward as medians."""
    table = Table(title=f"{title}; held-out prompts, greedy decoding")
    table.add_column("method")
    headings = ["digits, %", "answers, %", *[f"to {goal:.0%}" for goal in GOALS], "ms", "ratio"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for method, runs in metrics.items():
        cells = []
        for name in ("reward", "solved"):
            mean, deviation = spread([run[-1][name] for run in runs])
            cells.append(f"{100 * mean:.1f} ± {100 * deviation:.1f}")
        cells += [_steps_cell(steps_to(goal, runs)) for goal in GOALS]
        spent = statistics.median(row["milliseconds"] for run in runs for row in run[1:])
        cells.append(f"{spent:.1f}")
        ratios = variance_ratio(runs)
        cells.append(f"{statistics.mean(ratios.values()):.2f}" if ratios else "-")
        table.add_row(method, *cells)
    return table


def _steps_cell(steps: Sequence[int | None]) -> str:
    """The median, runs that never got there being last; and how many did."""
    reached = [step for step in steps if step is not None]
    middle = statistics.median([float("inf") if step is None else step for step in steps])
    text = f"{middle:.0f}" if middle < float("inf") else "never"
    return f"{text} ({len(reached)}/{len(steps)})"


def _print_difference(console: Console, metrics: Mapping[str, Sequence[Any]]) -> None:
    """Seed by seed, if there are two methods and several seeds."""
    if len(metrics) < 2 or len(metrics["rloo"]) < 2:
        return
    pairs = [*zip(metrics["carms"], metrics["rloo"], strict=True)]
    for what, value in (
        ("right digits", lambda run: run[-1]["reward"]),
        ("right answers", lambda run: run[-1]["solved"]),
        ("right digits, mean over training", _mean_reward),
    ):
        mean, deviation = spread([value(carms) - value(rloo) for carms, rloo in pairs])
        error = deviation / len(pairs) ** 0.5
        console.print(
            f"carms - rloo with the same seed, {what}: {100 * mean:+.1f} points, "
            f"standard error {100 * error:.1f}",
            highlight=False,
        )


def _mean_reward(run: Sequence[Mapping[str, Any]]) -> float:
    return float(statistics.mean(row["reward"] for row in run))
