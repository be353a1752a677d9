"""Train by policy gradient where rollouts are as many as likely answers: who learns fastest?

    python benchmarks/policies.py --out runs/policies         # 264 runs; about an hour on two cores

Correlated rollouts against RLOO, GRPO and Dr. GRPO at equal rollouts, on three tasks. For each task
and method the rate is the best of the same four, by the mean score over training with seeds of its
own; then ten other seeds are trained with it. Finished runs are left alone when the command runs
again.
"""

import argparse
import csv
import json
import math
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from timing import print_table
from torch import Tensor, nn

from carms import sequences

METHODS = "carms", "rloo", "grpo", "dr-grpo"
RATES = 3e-4, 1e-3, 3e-3, 1e-2
TRIALS = 3
PROMPTS, EVERY = 16, 20


@dataclass(frozen=True)
class Task:
    """Prompts ``[P, given]`` of digits below ``base``, and a right answer ``[P, wanted]`` each."""

    base: int
    given: int
    wanted: int
    samples: int
    answer: Callable[[Tensor], Tensor]

    def prompts(self, count: int, stream: torch.Generator) -> Tensor:
        return torch.randint(self.base, (count, self.given), generator=stream)


def total(prompts: Tensor) -> Tensor:
    """The sum of two numbers of two digits to the base 4, lowest first, without the last carry."""
    low, high = prompts[:, 0] + prompts[:, 2], prompts[:, 1] + prompts[:, 3]
    return torch.stack((low % 4, (high + low // 4) % 4), -1)


def largest(prompts: Tensor) -> Tensor:
    """Which of four numbers is the largest: a multiple choice."""
    return prompts.argmax(-1, keepdim=True)


def tool(prompts: Tensor) -> Tensor:
    """A tool, chosen by the first two digits, and the digit at the tool's place as its argument."""
    name = (prompts[:, 0] + prompts[:, 1]) % 4
    return torch.stack((name, prompts.gather(-1, name.unsqueeze(-1)).squeeze(-1)), -1)


TASKS = {
    "addition": Task(4, 4, 2, 16, total),
    "choice": Task(4, 4, 1, 4, largest),
    "tool": Task(4, 4, 2, 8, tool),
}


class Model(nn.Module):
    """One causal block over digits."""

    def __init__(self, task: Task, width: int = 64) -> None:
        super().__init__()
        self.token = nn.Embedding(task.base, width)
        self.place = nn.Parameter(torch.randn(task.given + task.wanted, width))
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.head = nn.Linear(width, task.base)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        return self.head(self.block(self.token(tokens) + self.place[:length], future))

    def step(self, tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return self(tokens)[:, -1], cache


@torch.no_grad()
def greedy(model: Model, task: Task) -> float:
    """The share of right answers to all prompts."""
    prompts = torch.cartesian_prod(*[torch.arange(task.base)] * task.given)
    tokens = prompts
    for _ in range(task.wanted):
        tokens = torch.cat((tokens, model(tokens)[:, -1:].argmax(-1)), 1)
    return (tokens[:, task.given :] == task.answer(prompts)).all(-1).float().mean().item()


def weights(method: str, rewards: Tensor, group: sequences.Rollouts) -> Tensor:
    """Advantages ``[P, N]`` of a method."""
    if method in ("carms", "rloo"):
        return sequences.advantages(rewards, group)
    centred = rewards - rewards.mean(-1, keepdim=True)
    return centred if method == "dr-grpo" else centred / (rewards.std(-1, keepdim=True) + 1e-4)


def curve(name: str, method: str, rate: float, seed: int, steps: int) -> list[float]:
    """Train, and return the score every 20 steps; equal seeds have equal weights and prompts."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task, stream = TASKS[name], torch.Generator().manual_seed(seed)
    model = Model(task)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    copula = "circular" if method == "carms" else "independent"
    scores = [greedy(model, task)]
    for step in range(1, steps + 1):
        prompts = task.prompts(PROMPTS, stream)
        group = sequences.rollouts(model.step, prompts, task.samples, task.wanted, copula)
        rewards = (group.tokens == task.answer(prompts).unsqueeze(1)).float().mean(-1)
        rows = torch.cat(
            (prompts.repeat_interleave(task.samples, 0), group.tokens.flatten(0, 1)), 1
        )
        logits = model(rows[:, :-1])[:, task.given - 1 :].log_softmax(-1)
        log_probs = logits.gather(-1, rows[:, task.given :, None]).sum((-2, -1))
        optimiser.zero_grad()
        (-(weights(method, rewards, group).flatten() * log_probs).mean()).backward()
        optimiser.step()
        if step % EVERY == 0:
            scores.append(greedy(model, task))
    return scores


def run(out: Path, steps: int, setting: tuple[str, str, float, int]) -> list[float]:
    """Scores of one run, read from its file if it ran before."""
    path = out / f"{'-'.join(map(str, setting))}-{steps}.json"
    if not path.exists():
        scores = curve(*setting, steps)
        path.with_suffix(".part").write_text(json.dumps(scores))
        path.with_suffix(".part").rename(path)
    return json.loads(path.read_text())


def spread(values: list[float]) -> str:
    """Mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {error:.3f}"


def table_rows(
    curves: dict[tuple[str, str], list[list[float]]], rates: dict
) -> Iterator[list[str]]:
    for (name, method), runs in curves.items():
        rivals = curves[name, "rloo"]
        ahead = [
            statistics.mean(one) - statistics.mean(other)
            for one, other in zip(runs, rivals, strict=True)
        ]
        yield [
            name,
            str(TASKS[name].samples),
            method,
            f"{rates[name, method]:g}",
            spread([scores[-1] for scores in runs]),
            spread([statistics.mean(scores) for scores in runs]),
            "" if method == "rloo" else spread(ahead),
        ]


def write(scores: dict[tuple[str, str, float, int], list[float]], out: Path) -> None:
    """Write one line for each run, trials of rates included."""
    with out.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["task", "method", "rate", "seed", "at the end", "mean over training"])
        for setting, curve in scores.items():
            lines.writerow([*setting, f"{curve[-1]:.4f}", f"{statistics.mean(curve):.4f}"])


def draw(curves: dict[tuple[str, str], list[list[float]]], out: Path) -> None:
    """Draw means over seeds, with bands of two standard errors."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(TASKS), figsize=(12, 3.6), sharey=True, layout="constrained")
    for axis, name in zip(axes, TASKS, strict=True):
        for method in METHODS:
            runs = torch.tensor(curves[name, method])
            mean, steps = runs.mean(0), EVERY * torch.arange(runs.shape[1])
            error = 2 * runs.std(0, correction=len(runs) > 1) / len(runs) ** 0.5
            (line,) = axis.plot(steps, mean, label=method)
            axis.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.15)
        axis.set(title=f"{name}, {TASKS[name].samples} rollouts", xlabel="step")
    axes[0].set_ylabel("right answers, greedy")
    axes[0].legend(frameon=False, title="mean ± 2 standard errors over seeds")
    figure.savefig(out, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    one = partial(run, arguments.out, arguments.steps)
    pairs = [(name, method) for name in TASKS for method in METHODS]
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        # Negative seeds choose the rates, the others are compared.
        trials = [(*pair, rate, -1 - k) for pair in pairs for rate in RATES for k in range(TRIALS)]
        found = dict(zip(trials, pool.map(one, trials), strict=True))
        rates = {
            pair: max(
                RATES,
                key=lambda rate: sum(sum(found[*pair, rate, -1 - k]) for k in range(TRIALS)),
            )
            for pair in pairs
        }
        runs = [(*pair, rates[pair], seed) for pair in pairs for seed in range(arguments.seeds)]
        scores = dict(zip(runs, pool.map(one, runs), strict=True))
    curves = {
        pair: [scores[*pair, rates[pair], seed] for seed in range(arguments.seeds)]
        for pair in pairs
    }
    print_table(
        f"Right answers after {arguments.steps} steps, mean and standard error of "
        f"{arguments.seeds} seeds",
        ["task", "N", "method", "rate", "at the end", "mean over training", "ahead of rloo"],
        list(table_rows(curves, rates)),
    )
    write(found | scores, arguments.out / "policies.csv")
    draw(curves, arguments.out / "policies.png")


if __name__ == "__main__":
    main()
