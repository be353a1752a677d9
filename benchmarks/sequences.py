"""Correlated rollouts against RLOO: variance, the choice of epsilon, products, speed, length, and
what a server's logits and groups without a lesson do to them.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from timing import interleaved, print_table
from torch import Tensor
from variance import random_objective, variance

import carms
from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import (
    CoupledProcessor,
    Rollouts,
    advantages,
    default_epsilon,
    drift,
    pair_ratio,
    places,
    rollouts,
)
from carms.sequences import ratios as recomputed_ratios

KINDS = {
    "peaked, sparse": (2.0, True),
    "peaked, dense": (2.0, False),
    "flat, sparse": (0.5, True),
    "flat, dense": (0.5, False),
}
EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
# What the means should reach, and what no single problem should exceed.
LIMITS = {
    **{(kind, 4): 1.0 for kind in KINDS},
    ("peaked, sparse", 16): 0.75,
    ("peaked, sparse", 32): 0.65,
}
WORST = 1.2
# So many rollouts at a time, for the processor's cache.
CHUNK = 8000
# Categories, samples, variables.
PRODUCTS = [(4, 4, 2), (4, 16, 2), (4, 16, 4), (4, 64, 4), (10, 10, 2), (10, 10, 10), (2, 16, 20)]


@dataclass
class Problem:
    """Random logits for every prefix, and a reward for every sequence.

    Attributes:
        logits: ``[V^t, V]`` for each ``t``.
        rewards: ``[V^T]``; one in ten is 1 and the others 0, or all are normal.
    """

    logits: list[Tensor]
    rewards: Tensor

    @staticmethod
    def random(vocabulary: int, length: int, scale: float, sparse: bool) -> "Problem":
        sizes = [vocabulary**t for t in range(length + 1)]
        logits = [scale * torch.randn(size, vocabulary).double() for size in sizes[:-1]]
        rewards = torch.randn(sizes[-1]).double()
        if sparse:
            threshold = rewards.topk(round(0.1 * sizes[-1])).values.min()
            rewards = (rewards >= threshold).double()
        return Problem(logits, rewards)

    def index(self, tokens: Tensor) -> Tensor:
        """Sequences ``[..., t]`` as one number each."""
        number = torch.zeros(tokens.shape[:-1], dtype=torch.long)
        for token in tokens.unbind(-1):
            number = number * self.logits[0].shape[-1] + token
        return number

    def step(self, tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return self.logits[tokens.shape[1]][self.index(tokens)], cache

    def draw(self, groups: int, samples: int, epsilon: float) -> Rollouts:
        nothing = torch.zeros(groups, 0, dtype=torch.long)
        return rollouts(self.step, nothing, samples, len(self.logits), epsilon=epsilon)

    def probs_and_scores(self) -> tuple[Tensor, Tensor]:
        """``[V^T]``, and the gradients ``[V^T, parameters]`` of their logarithms."""
        log_probs, scores = torch.zeros(1).double(), torch.zeros(1, 0).double()
        for logits in self.logits:
            vocabulary = logits.shape[-1]
            own = torch.eye(vocabulary) - logits.softmax(-1).unsqueeze(1)
            block = torch.block_diag(*own)
            scores = torch.cat((scores.repeat_interleave(vocabulary, 0), block), 1)
            log_probs = (log_probs.unsqueeze(-1) + logits.log_softmax(-1)).flatten()
        return log_probs.exp(), scores


def squares(problem: Problem, products: Tensor, group: Rollouts, epsilons: list[float]) -> Tensor:
    """Mean squared length of the gradient for each epsilon, from the same rollouts."""
    index = problem.index(group.tokens)
    rewards, samples = problem.rewards[index], group.samples
    difference = (rewards.unsqueeze(-1) - rewards.unsqueeze(-2)) / (samples * (samples - 1))
    inner = products[index.unsqueeze(-1), index.unsqueeze(-2)]
    # As `advantages` would have it for each epsilon, but the intervals are compared once.
    lift = pair_ratio(replace(group, epsilon=0.0)).reciprocal()
    found = []
    for epsilon in epsilons:
        weights = (difference / ((1 - epsilon) * lift + epsilon)).sum(-1)
        found.append(torch.einsum("pi,pij,pj->", weights, inner, weights) / len(index))
    return torch.stack(found)


def ratios(problem: Problem, samples: int, epsilons: list[float], groups: int) -> dict:
    """Total variance for each epsilon, relative to that of independent rollouts (epsilon 1).

    A group is independent with probability epsilon, so that two draws serve every epsilon.
    """
    probs, scores = problem.probs_and_scores()
    truth = ((probs * problem.rewards) @ scores).square().sum()
    products, every = scores @ scores.T, torch.tensor([*epsilons, 1.0])
    total = torch.zeros(len(every)).double()
    chunk = max(1, CHUNK // samples)
    for _ in range(groups // chunk):
        for epsilon, weight in ((0.0, 1 - every), (1.0, every)):
            group = problem.draw(chunk, samples, epsilon)
            total += weight * squares(problem, products, group, every.tolist())
    variances = total / (groups // chunk) - truth
    return dict(zip(epsilons, (variances / variances[-1]).tolist(), strict=False))


def plain_bias(problem: Problem, samples: int, epsilon: float) -> float:
    """Bias of plain leave-one-out on correlated rollouts, relative to the gradient: exact."""
    probs, scores = problem.probs_and_scores()
    table = InverseCDF(Circular(samples), epsilon=epsilon).pmf(probs)
    truth = (probs * problem.rewards) @ scores
    plain = (probs * problem.rewards - table @ problem.rewards) @ scores
    return float((plain - truth).norm() / truth.norm())


def variance_tables(arguments: argparse.Namespace) -> None:
    by_default, by_epsilon = [], []
    for kind, (scale, sparse) in KINDS.items():
        shape = arguments.vocabulary, arguments.length
        problems = [Problem.random(*shape, scale, sparse) for _ in range(arguments.problems)]
        for samples in arguments.samples:
            chosen = default_epsilon(samples)
            epsilons = sorted({*EPSILONS, chosen})
            groups = arguments.rows // samples
            found = [ratios(problem, samples, epsilons, groups) for problem in problems]
            means = {e: statistics.mean(each[e] for each in found) for e in epsilons}
            most = {e: max(each[e] for each in found) for e in epsilons}
            bias = statistics.median(plain_bias(each, samples, chosen) for each in problems)
            limit = LIMITS.get((kind, samples)) if shape == (4, 4) else None
            by_default.append(
                [
                    kind,
                    str(samples),
                    f"{chosen:.3g}",
                    f"{means[chosen]:.3f}" + (f" (<= {limit:g})" if limit else ""),
                    f"{most[chosen]:.2f} (<= {WORST:g})",
                    f"{bias:.1%}",
                ]
            )
            cells = [f"{means[e]:.2f} {most[e]:.2f}" for e in EPSILONS]
            by_epsilon.append([kind, str(samples), *cells])
    what = (
        f"{arguments.problems} random problems each, vocabulary {arguments.vocabulary}, length "
        f"{arguments.length}, {arguments.rows} rollouts"
    )
    print_table(
        f"Gradient variance / RLOO's at equal rollouts, default epsilon; {what}",
        ["policy, rewards", "N", "epsilon", "mean", "largest", "bias of plain leave-one-out"],
        by_default,
    )
    print_table(
        "The same for other epsilons: mean and largest",
        ["policy, rewards", "N", *[f"{e:g}" for e in EPSILONS]],
        by_epsilon,
    )


def product_variance(
    f: Callable[[Tensor], Tensor], logits: Tensor, samples: int, groups: int, **options: object
) -> float:
    """Total variance over the logits ``[D, C]``, all variables coupled by one number."""

    def step(tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return logits[tokens.shape[1]].expand(len(tokens), -1), cache

    nothing = torch.zeros(groups, 0, dtype=torch.long)
    drawn = rollouts(step, nothing, samples, len(logits), **options)
    weights = advantages(f(drawn.tokens), drawn).double() / samples
    one_hot = torch.nn.functional.one_hot(drawn.tokens, logits.shape[-1]).double()
    return float(torch.einsum("pn,pndc->pdc", weights, one_hot).var(0).sum())


def product_table(arguments: argparse.Namespace) -> None:
    rows = []
    for categories, samples, variables in PRODUCTS:
        for concentration in (1.0, 0.1):
            found: dict[str, list[float]] = {"carms-s": [], "one number": []}
            groups = min(4000, arguments.rows // samples)
            for _ in range(arguments.problems):
                f = random_objective(categories, variables)
                prior = torch.distributions.Dirichlet(torch.full((categories,), concentration))
                logits = prior.sample((variables,)).clamp_min(1e-30).log()
                each = {
                    name: variance(carms.make(name, samples=samples), f, logits, groups)
                    for name in ("loorf", "carms-s")
                }
                found["carms-s"].append(each["carms-s"] / each["loorf"])
                one = product_variance(f, logits, samples, groups)
                found["one number"].append(one / each["loorf"])
            cells = [f"{statistics.mean(values):.2f}" for values in found.values()]
            size = [f"{number:g}" for number in (categories, variables, samples, concentration)]
            rows.append([*size, *cells])
    print_table(
        f"D independent variables: variance / loorf's, mean over {arguments.problems} problems; "
        "p ~ Dir(alpha)",
        ["C", "D", "N", "alpha", "carms-s, per variable", "sequences, one number"],
        rows,
    )


def speed_table(arguments: argparse.Namespace) -> None:
    rows, tokens = [], 20
    for count in (8, 64):
        logits = 3 * torch.randn(count, arguments.large)
        prompts = torch.zeros(count // 8, 0, dtype=torch.long)

        def step(_: Tensor, cache: None, logits: Tensor = logits) -> tuple[Tensor, None]:
            return logits, cache

        def plain(draw: Callable[[Tensor], Tensor], logits: Tensor = logits) -> None:
            for _ in range(tokens):
                draw(logits.softmax(-1))

        def inverse_cdf(probs: Tensor) -> Tensor:
            u = torch.rand(len(probs), 1, dtype=torch.float64)
            return torch.searchsorted(probs.cumsum(-1, dtype=torch.float64), u)

        def ours(prompts: Tensor = prompts, step: Callable = step) -> Tensor:
            return pair_ratio(rollouts(step, prompts, 8, tokens))

        times = interleaved(
            {
                "softmax": partial(plain, lambda probs: probs),
                "multinomial": partial(plain, lambda probs: torch.multinomial(probs, 1)),
                "inverse CDF": partial(plain, inverse_cdf),
                "rollouts": ours,
            },
            arguments.rounds,
        )
        each = [f"{times[name] / tokens:.2f}" for name in times]
        over = [f"{times['rollouts'] / times[name]:.2f}" for name in ("multinomial", "inverse CDF")]
        rows.append([str(count), *each, f"{over[0]} (<= 1.5)", over[1]])
    print_table(
        f"Milliseconds per token at vocabulary {arguments.large:,}, one thread",
        [
            "rows",
            "softmax",
            "and multinomial",
            "and inverse CDF",
            "rollouts, pair_ratio",
            "/ multinomial",
            "/ inverse CDF",
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


def noisy(problem: Problem, noise: float) -> Problem:
    """The same with other logits, as another program's kernels compute them."""
    logits = [each + noise * torch.randn_like(each) for each in problem.logits]
    return Problem(logits, problem.rewards)


def recomputed(problem: Problem, group: Rollouts) -> tuple[Tensor, Tensor]:
    """Pair ratios of finished rollouts by the logits of this problem, and their drift."""
    steps = range(group.tokens.shape[-1])
    rows = group.tokens.flatten(0, 1)
    logits = torch.stack([problem.step(rows[:, :t], None)[0] for t in steps], 1)
    found = places(logits.view(*group.tokens.shape, -1), group.tokens)
    return (
        recomputed_ratios(group.tokens, *found, epsilon=group.epsilon),
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


def drift_table(arguments: argparse.Namespace) -> None:
    rows = []
    for kind in ("peaked, dense", "flat, dense"):
        scale, sparse = KINDS[kind]
        shape = arguments.vocabulary, arguments.length
        problems = [Problem.random(*shape, scale, sparse) for _ in range(arguments.problems)]
        for samples in (8, 32):
            for noise in (1e-3, 1e-2, 1e-1):
                errors, moved, biases = [], [], []
                for problem in problems:
                    other = noisy(problem, noise)
                    group = problem.draw(200, samples, default_epsilon(samples))
                    ratio, far = recomputed(other, group)
                    errors.append((ratio / pair_ratio(group) - 1).abs().flatten())
                    moved.append(far.mean().item())
                    probs, scores = other.probs_and_scores()
                    truth = (probs * other.rewards) @ scores
                    q = problem.probs_and_scores()[0]
                    for weights in (torch.outer(q, q), pair_weights(problem, other, samples)):
                        found = gradient_of_pairs(other, weights)
                        biases.append(float((found - truth).norm() / truth.norm()))
                error = torch.cat(errors)
                rows.append(
                    [
                        kind,
                        str(samples),
                        f"{noise:g}",
                        f"{statistics.mean(moved):.1e}",
                        f"{error.mean():.1e}",
                        f"{error.max():.1e}",
                        f"{statistics.median(biases[::2]):.2%}",
                        f"{statistics.median(biases[1::2]):.2%}",
                    ]
                )
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


# Vocabulary, length, scale of the logits, and whether there is one right answer, or one in ten.
TASKS = {
    "choice of 4": (4, 1, 1.0, True),
    "tool of 16": (16, 1, 2.0, True),
    "answer of 16": (4, 2, 2.0, True),
    "256 sequences, peaked": (4, 4, 2.0, False),
    "256 sequences, flat": (4, 4, 0.5, False),
}


def task(name: str) -> Problem:
    """A policy, and the right answer or answers, one of which it may well give."""
    vocabulary, length, scale, single = TASKS[name]
    problem = Problem.random(vocabulary, length, scale, not single)
    if single:
        right = problem.probs_and_scores()[0].multinomial(1)
        problem.rewards = torch.zeros_like(problem.rewards).index_fill(0, right, 1.0)
    return problem


def lessons(problem: Problem, samples: int, epsilon: float, groups: int) -> tuple[float, float]:
    """The share of groups whose rewards are all equal; and of the mean gradient of the others, its
    length along the true one.
    """
    probs, scores = problem.probs_and_scores()
    truth = (probs * problem.rewards) @ scores
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
            cells, kinds = [], {"independent": 1.0, "correlated": default_epsilon(samples)}
            for epsilon in (*kinds.values(), 0.0):
                found = [lessons(problem, samples, epsilon, groups) for problem in problems]
                shares, lengths = zip(*found, strict=True)
                cells.append(f"{statistics.mean(shares):.3f}")
                if epsilon == kinds["correlated"]:
                    scaled = f"{min(lengths):.2f} to {max(lengths):.2f}"
                    back = [length * (1 - share) for share, length in found]
                    again = f"{min(back):.2f} to {max(back):.2f}"
            rows.append([name, str(samples), *cells, scaled, again])
    print_table(
        f"Share of groups whose rewards are all equal, mean over {arguments.problems} problems; "
        "and what resampling them does to the gradients of single prompts",
        ["task", "N", *kinds, "epsilon 0", "gradient times", "and the share kept"],
        rows,
    )


def processor_table(arguments: argparse.Namespace) -> None:
    rows, tokens = [], 20
    for count in (8, 64):
        logits = 3 * torch.randn(count, arguments.large)
        prompts = torch.zeros(count, tokens, dtype=torch.long)

        def multinomial(scores: Tensor) -> Tensor:
            return torch.multinomial(scores.softmax(-1), 1)

        def exponential(scores: Tensor) -> Tensor:
            probs = scores.softmax(-1)
            return probs.div_(torch.empty_like(probs).exponential_()).argmax(-1)

        def plain(
            draw: Callable[[Tensor], Tensor], coupled: bool = False, logits: Tensor = logits
        ) -> None:
            processor = CoupledProcessor(8, seed=0)
            for t in range(tokens):
                draw(processor(prompts[: len(logits), :t], logits) if coupled else logits)  # noqa: B023

        times = interleaved(
            {
                "multinomial": partial(plain, multinomial),
                "exponential": partial(plain, exponential),
                "processor, argmax": partial(plain, lambda scores: scores.argmax(-1), True),
                "processor, multinomial": partial(plain, multinomial, True),
            },
            arguments.rounds,
        )
        each = [f"{times[name] / tokens:.2f}" for name in times]
        alone = times["processor, argmax"] / min(times["multinomial"], times["exponential"])
        twice = times["processor, multinomial"] / times["multinomial"]
        rows.append([str(count), *each, f"{alone:.2f} (<= 1.3)", f"{twice:.2f} (<= 1.3)"])
    print_table(
        f"The processor, milliseconds per token at vocabulary {arguments.large:,}, one thread",
        [
            "rows",
            "softmax, multinomial",
            "softmax, exponential",
            "processor, argmax",
            "processor, multinomial",
            "/ the faster",
            "/ multinomial",
        ],
        rows,
    )


PARTS = {
    "variance": variance_tables,
    "product": product_table,
    "speed": speed_table,
    "processor": processor_table,
    "long": long_table,
    "drift": drift_table,
    "lessons": lessons_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all if none is named")
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--samples", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--rows", type=int, default=160_000, help="rollouts per measurement")
    parser.add_argument("--vocabulary", type=int, default=4)
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--large", type=int, default=32_000, help="vocabulary for time and length")
    parser.add_argument("--tokens", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.parts or PARTS:
        torch.manual_seed(arguments.seed)
        PARTS[name](arguments)


if __name__ == "__main__":
    main()
