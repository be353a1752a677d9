"""Every estimator on trained models: variance and time relative to LOORF, and bias."""

import argparse
import csv
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from drawing import draw, kind_of
from pages import put_table
from shelf import for_any_categories, one_is_plenty, random_network
from timing import interleaved, print_table
from torch import Tensor

import carms
from carms.estimators import Estimator, find
from carms.lab.data.datasets import MissingData, load, some_of
from carms.lab.models.latent import LatentModel
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import binarised
from carms.lab.train.training import Trainer
from carms.lab.train.variance import gradients

# Evaluations per gradient, but for unord, which has seven in the paper.
SAMPLES = 10
MODELS = {
    "digits": Settings(
        dataset="digits",
        rate=1e-3,
        steps=2400,
        log_every=100,
        eval_every=200,
        checkpoint_every=800,
    ),
    "mnist-linear": Settings(network="linear", steps=12_000),
    "mnist-nonlinear": Settings(network="nonlinear", steps=12_000),
}
# Rows beside those of the names alone.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "carms-t, 5 neighbours": ("carms-t", {"neighbours": 5}),
    "gapped-st, coupled": ("gapped-st", {"coupling": "circular"}),
    "reinforce, running mean": ("reinforce", {"baseline": "running-mean"}),
    "reinmax, coupled": ("reinmax", {"coupling": "circular"}),
    "straight-through, coupled": ("straight-through", {"coupling": "circular"}),
}
# The mean gradient of this one, over more repetitions, is what biases are measured from.
REFERENCE, REFERENCE_FACTOR = "carms-t", 5
IMAGES = 50
LEARNING_STEPS, LEARNING_RATE = 300, 0.01
# Rows of the table on the page of benchmarks, and where it is there.
SHOWN = [
    *("carms-t", "carms-t, 5 neighbours", "local-expectation", "double-cv", "rodeo", "muprop"),
    *("carms-s", "carms-i", "ridge", "unord", "loorf", "reinforce", "reinforce, running mean"),
    *("reinmax, coupled", "reinmax", "reinmax-rao", "reinmax-cv", "gumbel-softmax", "gr-mc"),
    *("gapped-st", "st-gumbel-softmax", "straight-through, coupled", "straight-through"),
]
# What the variance of carms-t at equal evaluations should reach.
LIMITS = {"mnist-linear": 0.12, "mnist-nonlinear": 0.15}
# Random networks: (D, C), and how steep they are.
SHAPES, STEEPNESSES = [(20, 10), (3, 4)], [0.3, 1.0, 3.0, 8.0]
# What the variance of carms-t, relative to that of carms-s on its base samples, must not exceed.
NEVER_WORSE = 1.05


@dataclass(frozen=True)
class Problem:
    """A trained model, and the images whose gradient is measured."""

    model: LatentModel
    images: Tensor


@dataclass(frozen=True)
class Finding:
    """Gradients of one estimator.

    Attributes:
        evaluations: of ``f``, for one gradient of one image.
        mean: ``[images, D, C]``.
        variance: ``[images]``, of one gradient, summed over the logits.
        chance: ``[images]``, the variance of ``mean``, summed over the logits.
    """

    evaluations: float
    mean: Tensor
    variance: Tensor
    chance: Tensor


@dataclass(frozen=True)
class Row:
    """One estimator on one model; times and variances are relative to LOORF."""

    model: str
    estimator: str
    evaluations: float
    variance: float
    time: float
    variance_at_equal_time: float
    bias: str

    @property
    def label(self) -> str:
        return self.estimator

    @property
    def kind(self) -> str:
        made = make(self.estimator)
        return kind_of(made.unbiased, made.black_box)

    def cells(self) -> dict[str, str]:
        """What is printed and written, by column."""
        return {
            **{name: str(value) for name, value in asdict(self).items()},
            "evaluations": f"{self.evaluations:g}",
            "variance": f"{self.variance:.3g}",
            "time": f"{self.time:.2f}",
            "variance_at_equal_time": f"{self.variance_at_equal_time:.3g}",
        }


def make(label: str) -> Estimator:
    name, options = VARIANTS.get(label, (label, {}))
    samples = 1 if one_is_plenty(name) else find(name).usual_samples(SAMPLES)
    return carms.make(name, samples=samples, **options)


def trained(name: str, folder: Path) -> Problem:
    """The model of a run, which is trained first where it is not there."""
    settings, path = MODELS[name], folder / name

    def tell(line: dict[str, Any]) -> None:
        print(f"training {name}: step {line['step']} of {settings.steps}", file=sys.stderr)

    Trainer(settings, path).run(tell)
    trainer = Trainer.of_run(path)
    pixels = some_of(trainer.train, IMAGES)
    return Problem(trainer.model, binarised(pixels, torch.Generator().manual_seed(0)))


def whole_gradient(estimator: Estimator, problem: Problem) -> None:
    """The gradient that a training step takes, of encoder and decoder too."""
    logits = problem.model.logits(problem.images)
    objective = problem.model.objective(problem.images, logits, estimator)
    for parameter in problem.model.parameters():
        parameter.grad = None
    estimator.expectation(objective, logits).mean().backward()


def learn(estimator: Estimator, problem: Problem) -> None:
    """Let an estimator with a state or parameters learn from the gradients of the problem."""
    logits = problem.model.logits(problem.images).detach()

    def put_gradients() -> None:
        leaf = logits.clone().requires_grad_()
        objective = problem.model.objective(problem.images, leaf, estimator)
        estimator.expectation(objective, leaf).sum().backward()

    # Some parameters have a shape only after a call.
    put_gradients()
    parameters = list(estimator.parameters())
    if not (parameters or estimator.stateful):
        return
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE) if parameters else None
    for _ in range(LEARNING_STEPS):
        for parameter in parameters:
            parameter.grad = None
        put_gradients()
        if optimiser:
            optimiser.step()


def count_evaluations(estimator: Estimator, problem: Problem) -> float:
    """The number of points at which one gradient of one image asks for ``f``."""
    logits = problem.model.logits(problem.images).detach().requires_grad_()
    objective = problem.model.objective(problem.images, logits, estimator)
    count = 0.0

    def counting(z: Tensor) -> Tensor:
        nonlocal count
        count += z.numel() / logits.numel()
        return objective(z)

    estimator.expectation(counting, logits)
    return count


def examine(label: str, problem: Problem, repetitions: int) -> Finding:
    """Measure the gradient with respect to the logits, with about equal work for every one."""
    torch.manual_seed(0)
    estimator = make(label)
    problem.model.requires_grad_(False)
    learn(estimator, problem)
    evaluations = count_evaluations(estimator, problem)
    count = max(20, round(repetitions * min(1.0, SAMPLES / evaluations)))
    stream = torch.Generator().manual_seed(1)
    found = torch.stack(
        list(gradients(estimator, problem.model, problem.images, count, stream))
    ).double()
    problem.model.requires_grad_(True)
    variance = found.var(0).sum((-2, -1))
    return Finding(evaluations, found.mean(0), variance, variance / count)


def relative_bias(finding: Finding, reference: Finding) -> str:
    """Length of the bias over that of the gradient, less what chance adds to both.

    The images are independent of each other, and tell the standard error. Where chance may be all,
    it is an upper limit.
    """

    def squared(gradient: Tensor) -> Tensor:
        return gradient.square().sum((-2, -1))

    scale = (squared(reference.mean) - reference.chance).mean()
    seen = squared(finding.mean - reference.mean) - finding.chance - reference.chance
    error = float(2 * seen.std() / len(seen) ** 0.5 / scale)
    mean = float(seen.mean() / scale)
    return f"{mean**0.5:.2f}" if mean > error else f"< {(max(mean, 0) + error) ** 0.5:.2f}"


def measure(
    name: str, labels: list[str], problem: Problem, options: argparse.Namespace
) -> list[Row]:
    """A row for each label; LOORF has to be among them."""
    runs = {label: partial(whole_gradient, make(label), problem) for label in labels}
    times = interleaved(runs, options.rounds)
    findings = {}
    for label in labels:
        print(f"{name}: {label}", file=sys.stderr)
        findings[label] = examine(label, problem, options.repetitions)
    biased = [label for label in labels if not make(label).unbiased]
    if biased:
        reference = examine(REFERENCE, problem, REFERENCE_FACTOR * options.repetitions)
    base = findings["loorf"]
    rows = []
    for label, found in findings.items():
        ratio = float(found.variance.mean() / base.variance.mean())
        time = times[label] / times["loorf"]
        rows.append(
            Row(
                model=name,
                estimator=label,
                evaluations=found.evaluations,
                variance=ratio * found.evaluations / base.evaluations,
                time=time,
                variance_at_equal_time=ratio * time,
                bias=relative_bias(found, reference) if label in biased else "",
            )
        )
    return rows


def write(rows: list[Row], path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Put rows into a table for the estimators' pages, and return all that is in it then."""
    columns = [field.name for field in fields(Row)]
    table: dict[tuple[str, str], dict[str, str]] = {}
    if path.exists():
        with path.open() as lines:
            table = {(row["model"], row["estimator"]): row for row in csv.DictReader(lines)}
    table |= {(row.model, row.estimator): row.cells() for row in rows}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[key] for key in sorted(table))
    return table


def write_page(table: dict[tuple[str, str], dict[str, str]], path: Path) -> None:
    """Put the main figures of the table between two marks of a page."""
    columns = ("variance", "variance_at_equal_time", "bias")
    models = list(reversed(MODELS))
    header = [""]
    for name in models:
        header += [f"{name}: variance", "at equal time", "bias"]
    lines = [header]
    for label in SHOWN:
        name, _, variant = label.partition(", ")
        cells = [
            table.get((model, label), {}).get(column) or "-"
            for model in models
            for column in columns
        ]
        lines.append([f"`{name}`" + (variant and f", {variant}"), *cells])
    put_table(path, "trained models", lines)


def print_rows(name: str, rows: list[Row], repetitions: int) -> None:
    cells = [row.cells() for row in sorted(rows, key=lambda row: row.variance)]
    print_table(
        f"{name}, D = 20, C = 10, N = {SAMPLES}, batch {IMAGES}, {repetitions} repetitions, "
        "one thread",
        [
            "estimator",
            "evaluations",
            "variance at equal evaluations / loorf",
            "time / loorf",
            "variance at equal time / loorf",
            "relative bias",
        ],
        [[row[field.name] or "-" for field in fields(Row)[1:]] for row in cells],
    )
    for row in rows:
        if row.estimator == REFERENCE and name in LIMITS:
            print(f"{REFERENCE}: {row.variance:.3f} (limit {LIMITS[name]:g})")


def batched_variance(
    estimator: Estimator, f: Callable[[Tensor], Tensor], logits: Tensor, batches: int
) -> float:
    """Total variance over the logits in calls of ``IMAGES`` examples."""
    rows = []
    for _ in range(batches):
        many = logits.expand(IMAGES, *logits.shape).clone().requires_grad_()
        rows.append(torch.autograd.grad(estimator.expectation(f, many).sum(), many)[0])
    return float(torch.cat(rows).var(0).sum())


def print_random_networks(problems: int, batches: int) -> None:
    """Print the variance of carms-t relative to that of carms-s with as many base samples."""
    torch.manual_seed(0)
    slopes = carms.make("carms-t", samples=SAMPLES)
    values = carms.make("carms-s", samples=slopes.base)
    rows, worst = [], 0.0
    for variables, categories in SHAPES:
        for steepness in STEEPNESSES:
            ratios = []
            for _ in range(problems):
                f, logits = random_network(variables, categories, steepness)
                ratios.append(
                    batched_variance(slopes, f, logits, batches)
                    / batched_variance(values, f, logits, batches)
                )
            worst = max(worst, *ratios)
            mean = statistics.geometric_mean(ratios)
            label = f"D = {variables}, C = {categories}, steepness {steepness:g}"
            rows.append([label, f"{mean:.3f}", f"{max(ratios):.3f}"])
    print_table(
        f"Random networks: variance of carms-t, N = {SAMPLES}, over that of carms-s, "
        f"N = {slopes.base}; {problems} networks, {batches} batches of {IMAGES}",
        ["network", "mean", "largest"],
        rows,
    )
    print(f"largest of all: {worst:.3f} (limit {NEVER_WORSE:g})")


def choose(only: list[str] | None) -> list[str]:
    """The estimators to measure, LOORF always among them."""
    labels = sorted([*for_any_categories(), *VARIANTS])
    unknown = set(only or []) - set(labels)
    if unknown:
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(labels)}")
    return [label for label in labels if only is None or label in only or label == "loorf"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="estimators to measure")
    parser.add_argument(
        "--models", nargs="*", default=list(MODELS), choices=list(MODELS), help="trained models"
    )
    parser.add_argument(
        "--repetitions", type=int, default=200, help="number of gradients of each estimator"
    )
    parser.add_argument("--rounds", type=int, default=25, help="number of timed gradients")
    parser.add_argument("--networks", type=int, default=6, help="number of random networks")
    parser.add_argument("--batches", type=int, default=100, help="number of calls on each of them")
    parser.add_argument(
        "--runs", type=Path, default=Path("demo/trained"), help="folder of the trained models"
    )
    parser.add_argument("--out", type=Path, help="picture of the last model")
    parser.add_argument("--csv", type=Path, help="table for the estimators' pages")
    parser.add_argument("--page", type=Path, help="page whose table is made of that of --csv")
    options = parser.parse_args()
    if options.page and not options.csv:
        parser.error("--page needs --csv")
    torch.set_num_threads(1)
    labels = choose(options.only)
    rows: list[Row] = []
    for name in options.models:
        dataset = MODELS[name].dataset
        try:
            load(dataset)
        except MissingData:
            print(f"\n{name} is left out; `carms data fetch {dataset}` gets its images")
            continue
        problem = trained(name, options.runs)
        rows = measure(name, labels, problem, options)
        print_rows(name, rows, options.repetitions)
        if options.csv:
            table = write(rows, options.csv)
            if options.page:
                write_page(table, options.page)
    if options.networks:
        print_random_networks(options.networks, options.batches)
    if options.out and rows:
        title = f"Gradients of a trained model, {rows[0].model}"
        draw(rows, options.out, "time of a gradient / that of loorf", title)
        print(f"Drawn in {options.out}")


if __name__ == "__main__":
    main()
