"""Fair ratios on a noisy machine: variants take turns, and the median turn counts."""

import statistics
import time
from collections.abc import Callable

import torch


def interleaved(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each variant, all of them run once per round on one thread."""
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 3):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            if turn >= 3:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a plain table whose first column is flush left."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    print(f"\n{title}")
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        print("  ".join(cells))
