"""Every estimator on one page: its cost and its variance relative to LOORF, and its bias."""

import argparse
import csv
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from drawing import draw, kind_of
from step import Vae
from timing import interleaved, print_table
from torch import Tensor

import carms
from carms.estimators import Estimator, find

# Samples of the training step, and its categories but for the binary ones.
STEP_SIZE = 10
# What the step with unord should reach.
UNORD_LIMIT = 3.0
# Categories of the problems on which variance and bias are measured.
CATEGORIES = 5
TRAINING_STEPS, TRAINING_BATCH = 300, 32
# Number of gradients on which distinct points are counted.
COUNTED = 500


@dataclass(frozen=True)
class Problem:
    """A function of one-hot variables, their logits, and the gradient by enumeration."""

    f: Callable[[Tensor], Tensor]
    logits: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Finding:
    """Findings about one estimator on one problem."""

    evaluations: float
    variance: float
    squared_bias: float


@dataclass(frozen=True)
class Row:
    """Findings about one estimator; times and variances are relative to LOORF."""

    label: str
    unbiased: bool
    black_box: bool
    evaluations: float
    time: float | None
    variance: float
    bias: str

    @property
    def kind(self) -> str:
        return kind_of(self.unbiased, self.black_box)

    def cells(self) -> list[str]:
        return [
            self.label,
            "yes" if self.unbiased else "no",
            "yes" if self.black_box else "no",
            f"{self.evaluations:.1f}",
            "-" if self.time is None else f"{self.time:.2f}",
            f"{self.variance:.3f}",
            "-" if self.unbiased else self.bias,
        ]


def random_network(
    variables: int, categories: int, steepness: float
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A two-layer network with random weights, and logits of ``p ~ Dir(1)``."""
    first = torch.randn(variables, categories, 32, dtype=torch.float64) / variables**0.5
    last = torch.randn(32, dtype=torch.float64)

    def f(z: Tensor) -> Tensor:
        return (steepness * torch.einsum("...dc,dch->...h", z, first)).tanh() @ last

    prior = torch.distributions.Dirichlet(torch.ones(categories, dtype=torch.float64))
    return f, prior.sample((variables,)).clamp_min(1e-30).log()


def random_problem(variables: int, categories: int, steepness: float) -> Problem:
    f, logits = random_network(variables, categories, steepness)
    return Problem(f, logits, gradients(carms.make("exact"), f, logits, 1)[0])


def gradients(
    estimator: Estimator, f: Callable[[Tensor], Tensor], logits: Tensor, replicates: int
) -> Tensor:
    """Independent gradients ``[replicates, D, C]``, replicates being a batch dimension."""
    many = logits.expand(replicates, *logits.shape).clone().requires_grad_()
    estimator.expectation(f, many).sum().backward()
    assert many.grad is not None
    return many.grad


def distinct_evaluations(estimator: Estimator, problem: Problem) -> float:
    """Number of different points at which ``f`` is evaluated, mean over gradients."""
    counts = []

    def counting(z: Tensor) -> Tensor:
        rows = z.detach().flatten(-2)
        labels = torch.unique(rows.flatten(0, 1), dim=0, return_inverse=True)[1]
        ordered = labels.view(rows.shape[:2]).sort(0).values
        counts.append(1 + float((ordered[1:] != ordered[:-1]).sum()) / rows.shape[1])
        return problem.f(z)

    gradients(estimator, counting, problem.logits, COUNTED)
    return counts[0]


def train(estimator: Estimator, problem: Problem) -> None:
    """Let an estimator with parameters learn on the problem, then hold them."""
    if not estimator.learned:
        return
    # Some parameters have a shape only after a call.
    gradients(estimator, problem.f, problem.logits, 1)
    optimiser = torch.optim.Adam(estimator.parameters(), lr=0.01)
    for _ in range(TRAINING_STEPS):
        optimiser.zero_grad()
        gradients(estimator, problem.f, problem.logits, TRAINING_BATCH)
        optimiser.step()
    estimator.eval()


def examine(estimator: Estimator, problem: Problem, replicates: int) -> Finding:
    train(estimator, problem)
    found = gradients(estimator, problem.f, problem.logits, replicates)
    return Finding(
        evaluations=distinct_evaluations(estimator, problem),
        variance=float(found.var(0).sum()),
        squared_bias=float((found.mean(0) - problem.gradient).square().sum()),
    )


def make(name: str, samples: int) -> Estimator:
    return carms.make(name, samples=1 if one_is_plenty(name) else samples)


def one_is_plenty(name: str) -> bool:
    """Whether an estimator evaluates f far more often than it draws."""
    evaluations = carms.make(name, samples=4).evaluations(variables=3, categories=CATEGORIES)
    return evaluations is None or evaluations > 3 * 4


def for_any_categories() -> list[str]:
    """Names of the estimators that draw, except those for binary variables only."""
    return [n for n in carms.available() if find(n).least_samples and not find(n).binary_only]


def step_times(names: list[str], categories: int, rounds: int) -> dict[str, float]:
    """Time of a training step of the nonlinear VAE, relative to the step with LOORF."""
    torch.manual_seed(0)
    vae = Vae(categories)
    times = interleaved({name: partial(vae.step, make(name, STEP_SIZE)) for name in names}, rounds)
    return {name: each / times["loorf"] for name, each in times.items()}


def variance_ratio(findings: list[Finding], reference: list[Finding]) -> float:
    """Ratio of variances at equal evaluations, to which variances are inversely proportional."""
    ratios = [
        one.variance * one.evaluations / (other.variance * other.evaluations)
        for one, other in zip(findings, reference, strict=True)
    ]
    return statistics.geometric_mean(ratios)


def relative_bias(findings: list[Finding], problems: list[Problem], replicates: int) -> str:
    """Bias over all problems less the part due to chance; an upper limit if chance may be all."""
    scale = sum(float(problem.gradient.square().sum()) for problem in problems)
    chance = sum(each.variance for each in findings) / replicates / scale
    seen = sum(each.squared_bias for each in findings) / scale
    if seen < 2 * chance:
        return f"< {(2 * chance) ** 0.5:.2f}"
    return f"{(seen - chance) ** 0.5:.2f}"


def shelf(names: list[str], categories: int, options: argparse.Namespace) -> list[Row]:
    """A row for each name; LOORF has to be among them."""
    times = step_times(names, 2 if categories == 2 else STEP_SIZE, options.rounds)
    # The same problems, however much was timed.
    torch.manual_seed(0)
    problems = [
        random_problem(options.variables, categories, options.steepness)
        for _ in range(options.problems)
    ]
    findings = {
        name: [examine(make(name, options.samples), each, options.replicates) for each in problems]
        for name in names
    }
    return [
        Row(
            label=f"{name} (C = 2)" if categories == 2 else name,
            unbiased=make(name, options.samples).unbiased,
            black_box=make(name, options.samples).black_box,
            evaluations=statistics.mean(each.evaluations for each in findings[name]),
            time=times[name],
            variance=variance_ratio(findings[name], findings["loorf"]),
            bias=relative_bias(findings[name], problems, options.replicates),
        )
        for name in names
    ]


def write(rows: list[Row], path: Path) -> None:
    """Write the CSV table of the estimators' pages."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["estimator", "evaluations", "time", "variance", "bias"])
        for row in rows:
            name, _, _, evaluations, time, variance, bias = row.cells()
            time, bias = ("" if cell == "-" else cell for cell in (time, bias))
            writer.writerow([name.split()[0], evaluations, time, variance, bias])


def unord_with_many_samples() -> bool:
    """Whether a training step with 64 samples leaves finite gradients."""
    vae = Vae(STEP_SIZE)
    vae.step(carms.make("unord", samples=64))
    return all(bool(weight.grad.isfinite().all()) for weight in vae.model.encoder.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="number of timed training steps")
    parser.add_argument("--problems", type=int, default=12, help="number of random problems")
    parser.add_argument(
        "--replicates", type=int, default=4000, help="number of gradients for each problem"
    )
    parser.add_argument(
        "--variables", type=int, default=3, help="number of variables of a problem, at least 2"
    )
    parser.add_argument(
        "--samples", type=int, default=8, help="samples of estimators that do not need just one"
    )
    parser.add_argument(
        "--steepness", type=float, default=1.0, help="steepness of f; a small one is nearly linear"
    )
    parser.add_argument("--out", type=Path, default=Path("shelf.png"), help="the picture")
    parser.add_argument("--csv", type=Path, help="a table for the estimators' pages")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = shelf(for_any_categories(), CATEGORIES, options)
    binary = [name for name in carms.available() if find(name).binary_only]
    rows += shelf(["loorf", *binary], 2, options)[1:]
    drawn = rows.copy()
    rows.append(Row("exact", True, True, CATEGORIES**options.variables, None, 0.0, "-"))
    rows.sort(key=lambda row: row.label)
    if options.csv:
        write(rows, options.csv)
    print_table(
        f"Steps: C = N = {STEP_SIZE}. Variance and bias: D = {options.variables}, "
        f"C = {CATEGORIES}, N = {options.samples}, steepness {options.steepness:g}, "
        f"{options.problems} random problems, {options.replicates} replicates. One thread",
        [
            "estimator",
            "unbiased",
            "black box",
            "evaluations",
            "step time / loorf",
            "variance at equal evaluations / loorf",
            "relative bias",
        ],
        [row.cells() for row in rows],
    )
    time = next(row.time for row in rows if row.label == "unord")
    works = "works" if unord_with_many_samples() else "FAILS"
    print(
        f"\nunord, D = 20, C = N = 10: {time:.2f} of the step with loorf (limit {UNORD_LIMIT:g}); "
        f"samples=64 {works}"
    )
    draw(drawn, options.out, "time of a training step / that of loorf")
    print(f"Drawn in {options.out}")


if __name__ == "__main__":
    main()
