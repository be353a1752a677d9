"""Cost of carms-s as the number of categories grows, relative to softmax + torch.multinomial."""

import argparse
import multiprocessing
from functools import partial
from pathlib import Path

import torch
from counting import count
from timing import interleaved, print_table
from torch import Tensor

import carms

SAMPLES = 4
# Categories -> variables: fewer where the logits would be hundreds of megabytes.
SIZES = {16: 1024, 128: 1024, 1024: 1024, 8192: 1024, 65_536: 128}


def objective(indices: Tensor) -> Tensor:
    return (indices % 7).float().sum(-1)


def call(logits: Tensor, orderings: str | int = "auto") -> Tensor:
    return carms.expectation(objective, logits, samples=SAMPLES, one_hot=False, orderings=orderings)


def call_with_backward(logits: Tensor, orderings: str | int = "auto") -> None:
    call(logits, orderings).backward()
    logits.grad = None


def baseline(logits: Tensor) -> Tensor:
    return torch.multinomial(logits.detach().softmax(-1), SAMPLES, replacement=True)


def launches(categories: int) -> int:
    return count(lambda: call(torch.randn(2, categories))).launches


def peak_beyond_logits(categories: int, variables: int, orderings: str | int) -> str:
    """Peak memory of a call with its backward pass, in units of the logits, in a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return f"{pool.apply(_peak, (categories, variables, orderings)):.1f}"


def _peak(categories: int, variables: int, orderings: str | int) -> float:
    torch.set_num_threads(1)
    call_with_backward(torch.randn(4, 2048, requires_grad=True), orderings)
    logits = torch.randn(variables, categories, requires_grad=True)
    before = _peak_bytes()
    call_with_backward(logits, orderings)
    return (_peak_bytes() - before) / (logits.numel() * logits.itemsize)


def _peak_bytes() -> int:
    """The high-water mark of this process; that of ``getrusage`` outlives an ``exec``."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if "VmHWM" in line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    rows = []
    for categories, variables in SIZES.items():
        logits = torch.randn(variables, categories, requires_grad=True)
        times = interleaved(
            {
                "baseline": partial(baseline, logits),
                "call": partial(call, logits),
                "backward": partial(call_with_backward, logits),
                "four": partial(call_with_backward, logits, 4),
            },
            rounds,
        )
        # Below a few megabytes the peak is noise.
        big = logits.numel() >= 1 << 23
        rows.append(
            [
                f"{categories:,}",
                f"{variables:,}",
                f"{times['call']:.2f}",
                f"{times['call'] / times['baseline']:.2f}",
                f"{times['backward'] / times['baseline']:.2f}",
                f"{times['call'] * 1e6 / logits.numel():.1f}",
                peak_beyond_logits(categories, variables, "auto") if big else "",
                f"{launches(categories)}",
                f"{times['four'] / times['baseline']:.2f}",
                peak_beyond_logits(categories, variables, 4) if big else "",
            ]
        )
    print_table(
        f"carms-s, N = {SAMPLES}, one_hot=False, one thread; ratios to softmax + multinomial "
        "(limits from 1,024 categories on: 2, with backward 3, memory 3)",
        [
            "categories",
            "variables",
            "ms",
            "ratio",
            "with backward",
            "ns/logit",
            "memory",
            "launches",
            "four orderings",
            "their memory",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
