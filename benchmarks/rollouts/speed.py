"""Time per token, and very long rollouts."""

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from timing import interleaved, print_table
from torch import Tensor

from carms.sequences import CoupledProcessor, pair_ratio, rollouts

# Rollouts of a prompt, and tokens of a timed run.
SAMPLES, TOKENS = 8, 20
# Rows of logits: one group of rollouts, and eight.
ROWS = (8, 64)

Draw = Callable[[Tensor], Tensor]


def inverse_cdf(probs: Tensor) -> Tensor:
    u = torch.rand(len(probs), 1, dtype=torch.float64)
    return torch.searchsorted(probs.cumsum(-1, dtype=torch.float64), u)


def times_of_rollouts(logits: Tensor, rounds: int) -> dict[str, float]:
    """Milliseconds per token of rollouts, and of simpler ways to draw from the same logits."""
    prompts = torch.zeros(len(logits) // SAMPLES, 0, dtype=torch.long)

    def plain(draw: Draw) -> None:
        for _ in range(TOKENS):
            draw(logits.softmax(-1))

    def ours() -> Tensor:
        return pair_ratio(rollouts(lambda _, cache: (logits, cache), prompts, SAMPLES, TOKENS))

    variants = {
        "softmax": partial(plain, lambda probs: probs),
        "multinomial": partial(plain, lambda probs: torch.multinomial(probs, 1)),
        "inverse CDF": partial(plain, inverse_cdf),
        "rollouts": ours,
    }
    return {name: time / TOKENS for name, time in interleaved(variants, rounds).items()}


def speed_table(arguments: argparse.Namespace) -> None:
    rows = []
    for count in ROWS:
        times = times_of_rollouts(3 * torch.randn(count, arguments.large), arguments.rounds)
        over = [f"{times['rollouts'] / times[name]:.2f}" for name in ("multinomial", "inverse CDF")]
        each = [f"{time:.2f}" for time in times.values()]
        rows.append([str(count), *each, f"{over[0]} (<= 1.5)", over[1]])
    print_table(
        f"Milliseconds per token at vocabulary {arguments.large:,}, one thread",
        [
            *("rows", "softmax", "and multinomial", "and inverse CDF", "rollouts, pair_ratio"),
            *("/ multinomial", "/ inverse CDF"),
        ],
        rows,
    )


def multinomial(scores: Tensor) -> Tensor:
    return torch.multinomial(scores.softmax(-1), 1)


def exponential(scores: Tensor) -> Tensor:
    probs = scores.softmax(-1)
    return probs.div_(torch.empty_like(probs).exponential_()).argmax(-1)


def times_of_processor(logits: Tensor, rounds: int) -> dict[str, float]:
    """Milliseconds per token with and without the processor."""
    tokens = torch.zeros(len(logits), TOKENS, dtype=torch.long)

    def plain(draw: Draw) -> None:
        for _ in range(TOKENS):
            draw(logits)

    def coupled(draw: Draw) -> None:
        processor = CoupledProcessor(SAMPLES, seed=0)
        for t in range(TOKENS):
            draw(processor(tokens[:, :t], logits))

    variants = {
        "multinomial": partial(plain, multinomial),
        "exponential": partial(plain, exponential),
        "processor, argmax": partial(coupled, lambda scores: scores.argmax(-1)),
        "processor, multinomial": partial(coupled, multinomial),
    }
    return {name: time / TOKENS for name, time in interleaved(variants, rounds).items()}


def processor_table(arguments: argparse.Namespace) -> None:
    rows = []
    for count in ROWS:
        times = times_of_processor(3 * torch.randn(count, arguments.large), arguments.rounds)
        alone = times["processor, argmax"] / min(times["multinomial"], times["exponential"])
        twice = times["processor, multinomial"] / times["multinomial"]
        each = [f"{time:.2f}" for time in times.values()]
        rows.append([str(count), *each, f"{alone:.2f} (<= 1.3)", f"{twice:.2f} (<= 1.3)"])
    print_table(
        f"The processor, milliseconds per token at vocabulary {arguments.large:,}, one thread",
        [
            *("rows", "softmax, multinomial", "softmax, exponential", "processor, argmax"),
            *("processor, multinomial", "/ the faster", "/ multinomial"),
        ],
        rows,
    )


def long_table(arguments: argparse.Namespace) -> None:
    table = 3 * torch.randn(64, arguments.large)

    def step(tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        last = tokens[:, -1] if tokens.shape[1] else tokens.new_zeros(len(tokens))
        return table[last % 64], cache

    begin = time.perf_counter()
    nothing = torch.zeros(1, 0, dtype=torch.long)
    group = rollouts(step, nothing, 8, arguments.tokens)
    middle = time.perf_counter()
    ratio = pair_ratio(group)
    end = time.perf_counter()
    bad = int((~ratio.isfinite()).sum() + (~group.log_probs.isfinite()).sum())
    print_table(
        f"8 rollouts of {arguments.tokens:,} tokens at vocabulary {arguments.large:,}",
        ["log probability", "ratios", "bound", "NaN or infinite", "seconds", "of pair_ratio"],
        [
            [
                f"{group.log_width.min():.0f} to {group.log_width.max():.0f}",
                f"{ratio.min():.3f} to {ratio.max():.3f}",
                f"{1 / group.epsilon:g}",
                str(bad),
                f"{end - begin:.1f}",
                f"{end - middle:.2f}",
            ]
        ],
    )
