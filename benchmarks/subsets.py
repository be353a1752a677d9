"""Subsets and rankings: variance, the choice of epsilon, time and size."""

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial

import torch
from counting import count
from parts import parser_of, run_parts
from timing import interleaved, print_table
from torch import Tensor

from carms import subsets
from carms.subsets.base import indicator
from carms.subsets.carms import default_epsilon

KINDS = {"flat": 0.5, "peaked": 3.0}  # standard deviation of the logits
SIZES = [(5, 2), (8, 3), (20, 4), (64, 8)]
EPSILONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
TIMES = [(64, 8, 8), (1024, 16, 8), (10_000, 100, 8)]  # n, k, N
# Most subsets per call; the batch is as large as this allows, so that scales can be fitted.
ROWS = 2000


def table(items: int) -> Callable[[Tensor], Tensor]:
    """A random number for every subset of up to 20 items, which has interactions but no slopes."""
    values, powers = torch.randn(2**items).double(), 2 ** torch.arange(items).double()
    return lambda z: values[(z @ powers).long()]


def network(items: int, size: int) -> Callable[[Tensor], Tensor]:
    """A random network of two layers."""
    first = torch.randn(items, 32).double() / math.sqrt(size)
    bias, last = torch.randn(32).double(), torch.randn(32).double()
    return lambda z: (z @ first + bias).tanh() @ last


def ranking(items: int, size: int) -> Callable[[Tensor], Tensor]:
    """Sum of random gains, discounted by rank as in NDCG."""
    gains = torch.randn(items).double().exp()
    discount = 1 / torch.log2(2 + torch.arange(size).double())
    return lambda drawn: (gains[drawn] * discount).sum(-1)


def variance(made: subsets.SubsetEstimator, f: Callable, logits: Tensor, draws: int) -> float:
    """Total variance of the gradient over ``draws`` examples, all with the same logits."""
    torch.manual_seed(0)  # common random numbers: estimators that draw alike are compared better
    batch = max(2, ROWS // max(1, made.samples))
    found = []
    for _ in range(max(1, draws // batch)):
        leaf = logits.expand(batch, -1).clone().requires_grad_()
        value = made.expectation(f, leaf)
        found.append(torch.autograd.grad(value.sum(), leaf)[0])
    return float(torch.cat(found).var(0).sum())


def by_order(f: Callable, logits: Tensor) -> Callable[[Tensor], Tensor]:
    """Let ``f`` of a subset take the items in the order of their draw."""
    return lambda items: f(indicator(items, logits))


def relative(
    items: int, size: int, samples: int, scale: float, arguments: argparse.Namespace, slopes: bool
) -> dict[str, list[float]]:
    """Variances relative to leave-one-out on rankings, for random problems."""
    names = ["loorf", "carms"] + ["unord"] * (math.comb(items, size) <= arguments.listed)
    names += ["carms-t", "straight-through"] * slopes
    found: dict[str, list[float]] = {name: [] for name in names}
    for problem in range(arguments.problems):
        torch.manual_seed(arguments.seed + problem)
        logits = scale * torch.randn(items).double()
        f = network(items, size) if slopes else table(items)
        plain = subsets.make("loorf", size, samples=samples, ordered=True)
        base = variance(plain, by_order(f, logits), logits, arguments.draws)
        for name in names:
            made = subsets.make(name, size, samples=samples)
            found[name].append(variance(made, f, logits, arguments.draws) / base)
    return found


def variance_table(arguments: argparse.Namespace) -> None:
    header = ["n", "k", "subsets", "N", "logits", "f"]
    names = ["loorf", "carms", "unord", "carms-t", "straight-through"]
    rows = []
    for items, size in SIZES:
        for samples in arguments.samples:
            for kind, scale in KINDS.items():
                for slopes in (False, True):
                    if not slopes and items > 20:
                        continue
                    found = relative(items, size, samples, scale, arguments, slopes)
                    cells = [
                        f"{statistics.mean(found[name]):.2f}" if name in found else "-"
                        for name in names
                    ]
                    numbers = (items, size, f"{math.comb(items, size):.3g}", samples)
                    what = "network" if slopes else "table"
                    rows.append([*map(str, numbers), kind, what, *cells])
    print_table(
        "Variance of the gradient / that of leave-one-out on rankings, mean over "
        f"{arguments.problems} problems; straight-through is biased",
        [*header, *names],
        rows,
    )


def ranking_table(arguments: argparse.Namespace) -> None:
    rows = []
    for items, size in [(4, 4), (8, 3), (10, 10), (50, 10)]:
        for samples in arguments.samples:
            for kind, scale in KINDS.items():
                found = []
                for problem in range(arguments.problems):
                    torch.manual_seed(arguments.seed + problem)
                    logits, f = scale * torch.randn(items).double(), ranking(items, size)
                    each = [
                        variance(
                            subsets.make(name, size, samples=samples, ordered=True),
                            f,
                            logits,
                            arguments.draws,
                        )
                        for name in ("loorf", "carms")
                    ]
                    found.append(each[1] / each[0])
                numbers = map(str, (items, size, samples))
                rows.append([*numbers, kind, f"{statistics.mean(found):.2f}"])
    print_table(
        "Rankings by discounted gains: variance of carms / loorf",
        ["n", "k", "N", "logits", "carms"],
        rows,
    )


def epsilon_table(arguments: argparse.Namespace) -> None:
    rows = []
    for items, size in SIZES[:3]:
        for samples in arguments.samples:
            for kind, scale in KINDS.items():
                found: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
                for problem in range(arguments.problems):
                    torch.manual_seed(arguments.seed + problem)
                    logits, f = scale * torch.randn(items).double(), table(items)
                    plain = subsets.make("loorf", size, samples=samples)
                    base = variance(plain, f, logits, arguments.draws)
                    for epsilon in EPSILONS:
                        made = subsets.make("carms", size, samples=samples, epsilon=epsilon)
                        found[epsilon].append(variance(made, f, logits, arguments.draws) / base)
                cells = [f"{statistics.mean(found[epsilon]):.2f}" for epsilon in EPSILONS]
                used = default_epsilon(samples, math.comb(items, size))
                numbers = map(str, (items, size, samples))
                rows.append([*numbers, kind, *cells, f"{used:.2g}"])
    print_table(
        "carms: variance / loorf's for other epsilons",
        ["n", "k", "N", "logits", *map(str, EPSILONS), "default"],
        rows,
    )


def operations(run: Callable[[], object]) -> int:
    """Number of operations once everything is remembered that a first call computes."""
    run()
    return count(run).operations


def top_k(logits: Tensor, size: int, samples: int) -> Tensor:
    """Gumbel top-k by ``torch.topk``, without any correlation."""
    u = torch.rand(samples, *logits.shape)
    return (logits - (-u.log()).log()).topk(size).indices


def speed_table(arguments: argparse.Namespace) -> None:
    rows = []
    for items, size, samples in TIMES:
        batch = max(1, arguments.elements // (items * samples))
        logits = torch.randn(batch, items)
        variants: dict[str, Callable[[], object]] = {"top-k": partial(top_k, logits, size, samples)}
        for name in ("loorf", "carms"):
            made = subsets.make(name, size, samples=samples)
            variants[name] = partial(made._draw, logits, None)
        times = interleaved(variants, arguments.rounds)
        cells = []
        for name, run in variants.items():
            cells.append(f"{times[name] / times['top-k']:.2f}, {operations(run)}")
        numbers = map(str, (items, size, samples, batch))
        rows.append([*numbers, f"{times['top-k']:.2f}", *cells])
    print_table(
        "Time of a draw / that of torch.topk on Gumbel noise, and the number of operations",
        ["n", "k", "N", "batch", "ms of top-k", "top-k", "loorf", "carms"],
        rows,
    )


def large_table(arguments: argparse.Namespace) -> None:
    rows = []
    for name in ("loorf", "carms", "carms-t"):
        logits = (3 * torch.randn(10_000)).requires_grad_()
        weight = torch.randn(10_000)
        value = subsets.expectation(lambda z, w=weight: (z @ w).tanh(), logits, 100, estimator=name)
        value.backward()
        bad = int((~logits.grad.isfinite()).sum())
        rows.append([name, f"{value.item():.3f}", f"{logits.grad.norm():.3g}", str(bad)])
    print_table(
        "100 of 10,000 items: one call", ["estimator", "value", "gradient", "not finite"], rows
    )


PARTS = {
    "variance": variance_table,
    "ranking": ranking_table,
    "epsilon": epsilon_table,
    "speed": speed_table,
    "large": large_table,
}


def main() -> None:
    parser = parser_of(__doc__, PARTS, problems=4, samples=[4, 8, 16])
    parser.add_argument("--draws", type=int, default=1600, help="gradients of each (%(default)s)")
    parser.add_argument("--listed", type=int, default=500, help="most subsets for unord")
    parser.add_argument("--elements", type=int, default=400_000, help="logits per draw, for speed")
    run_parts(PARTS, parser)


if __name__ == "__main__":
    main()
