"""Variance, time and bias of an estimator's gradients on a model."""

import argparse
import sys
from dataclasses import dataclass
from functools import partial

import torch
from timing import interleaved
from torch import Tensor

from carms.estimators import Estimator
from carms.lab.train.variance import gradients
from models.problems import SAMPLES, Problem, make
from models.rows import Row

# Biases are measured from the mean gradient of this estimator, over more repetitions.
REFERENCE, REFERENCE_FACTOR = "carms-t", 5
LEARNING_STEPS, LEARNING_RATE = 300, 0.01


@dataclass(frozen=True)
class Finding:
    """Gradients of one estimator.

    Attributes:
        evaluations: number of evaluations of ``f`` for one gradient of one image.
        mean: ``[images, D, C]``, the mean gradient.
        variance: ``[images]``, variance of one gradient, summed over the logits.
        chance: ``[images]``, variance of ``mean``, summed over the logits.
    """

    evaluations: float
    mean: Tensor
    variance: Tensor
    chance: Tensor


def whole_gradient(estimator: Estimator, problem: Problem) -> None:
    """Compute the gradient of a training step, with that of encoder and decoder."""
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
    """Measure gradients with respect to the logits, with about equal work for each estimator."""
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

    The standard error is that over images, which are independent of each other. Where chance may
    explain the whole bias, the text is an upper limit.
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
