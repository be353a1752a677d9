"""Bias, variance and cost of estimators on the user's own problem."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli

from carms.estimators import Estimator, make
from carms.estimators.base import Objective
from carms.estimators.exact import MAX_CONFIGURATIONS, Exact
from carms.inputs import Distribution, Variables

__all__ = ["Comparison", "Measurement", "compare"]

# Distinct evaluations are counted on so many calls, timed ones being left alone.
_COUNTED_CALLS = 20


@dataclass(frozen=True)
class Measurement:
    """What :func:`compare` found out about one estimator.

    Attributes:
        estimator: its name.
        bias: length of the mean gradient minus the exact one; None where that is not feasible.
        standard_error: what ``bias`` would typically be by chance, were there none.
        variance: of the gradient, summed over all logits.
        evaluations: distinct points at which ``f`` was evaluated, mean per example and call.
        milliseconds: median time of a call with its backward pass.
    """

    estimator: str
    bias: float | None
    standard_error: float
    variance: float
    evaluations: float
    milliseconds: float


@dataclass(frozen=True)
class Comparison:
    """A table of measurements: ``print`` it, show it in a notebook, or take its ``to_dict()``."""

    measurements: tuple[Measurement, ...]
    samples: int
    replicates: int

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Each estimator's measurements by name."""
        rows = {row.estimator: asdict(row) for row in self.measurements}
        for row in rows.values():
            del row["estimator"]
        return rows

    def _cells(self) -> list[list[str]]:
        header = ["estimator", "bias", "std. error", "variance", "evaluations", "ms"]
        return [header] + [
            [
                row.estimator,
                "-" if row.bias is None else f"{row.bias:.3g}",
                f"{row.standard_error:.3g}",
                f"{row.variance:.4g}",
                f"{row.evaluations:.3g}",
                f"{row.milliseconds:.2f}",
            ]
            for row in self.measurements
        ]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        lines.append(f"{self.samples} samples, {self.replicates} replicates")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        caption = f"{self.samples} samples, {self.replicates} replicates"
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"


def compare(
    f: Objective,
    logits: Distribution,
    estimators: Sequence[str | Estimator] | None = None,
    samples: int = 4,
    replicates: int = 1000,
    generator: torch.Generator | None = None,
    *,
    one_hot: bool = True,
) -> Comparison:
    """Measure estimators on a problem of your own.

    Args:
        f: as for :func:`carms.expectation`.
        logits: as for :func:`carms.expectation`; ``f`` may depend on them.
        estimators: names, or objects from :func:`carms.make`; a sensible choice if None.
        samples: for those given by name.
        replicates: independent gradients per estimator, at least 2.
        generator: source of randomness; the global one if None.
        one_hot: as for :func:`carms.expectation`.

    >>> table = compare(lambda z: z[..., 0].sum(-1), torch.zeros(2, 3), ["loorf"], replicates=10)
    >>> sorted(table.to_dict()["loorf"])
    ['bias', 'evaluations', 'milliseconds', 'standard_error', 'variance']
    """
    if replicates < 2:
        raise ValueError(f"a variance needs at least 2 replicates, got replicates={replicates}")
    problem = _Problem(f, logits, one_hot)
    if estimators is None:
        binary = ["disarm", "arms"] if problem.logits.shape[-1] == 2 and samples % 2 == 0 else []
        estimators = ["reinforce", "loorf", *binary, "carms-i", "carms-g", "carms-s"]
    made = [make(e, samples=samples) if isinstance(e, str) else e for e in estimators]
    names = [e if isinstance(e, str) else repr(e) for e in estimators]
    *_, variables, categories = problem.logits.shape
    feasible = categories**variables <= MAX_CONFIGURATIONS
    truth = problem.gradient(Exact(), None) if feasible else None
    rows = [
        _measure(problem, name, estimator, truth, replicates, generator)
        for name, estimator in zip(names, made, strict=True)
    ]
    return Comparison(tuple(rows), samples, replicates)


class _Problem:
    """``f`` and its logits, ready for many gradients with respect to them."""

    def __init__(self, f: Objective, given: Distribution, one_hot: bool) -> None:
        self.f, self.one_hot = f, one_hot
        self.binary = isinstance(given, Bernoulli)
        own = given.logits if isinstance(given, Bernoulli) else Variables.of(given).logits
        self._leaf = own if own.requires_grad else own.detach().clone().requires_grad_()
        self.variables: Distribution = Bernoulli(logits=self._leaf) if self.binary else self._leaf
        self.logits = Variables.of(self.variables).logits
        self.calls = self.distinct = 0

    def gradient(self, estimator: Estimator, generator: torch.Generator | None) -> Tensor:
        return self._gradient(self.f, estimator, generator)

    def counted_gradient(self, estimator: Estimator, generator: torch.Generator | None) -> Tensor:
        """The same, counting distinct evaluations."""

        def counting(z: Tensor) -> Tensor:
            dense = self.one_hot and not self.binary
            self.distinct += _count_distinct(z.argmax(-1) if dense else z)
            self.calls += max(1, z[0, ..., 0, 0].numel() if dense else z[0, ..., 0].numel())
            return self.f(z)

        return self._gradient(counting, estimator, generator)

    def _gradient(
        self, f: Objective, estimator: Estimator, generator: torch.Generator | None
    ) -> Tensor:
        value = estimator.expectation(f, self.variables, generator, one_hot=self.one_hot)
        # The graph of what `f` closes over is the user's: leave it usable.
        return torch.autograd.grad(value.sum(), self._leaf, retain_graph=True)[0]


def _measure(
    problem: _Problem,
    name: str,
    estimator: Estimator,
    truth: Tensor | None,
    replicates: int,
    generator: torch.Generator | None,
) -> Measurement:
    problem.calls = problem.distinct = 0
    mean = square = torch.zeros((), dtype=torch.float64)
    times = []
    for count in range(1, replicates + 1):
        counted = count <= min(_COUNTED_CALLS, replicates - 1)
        run = problem.counted_gradient if counted else problem.gradient
        start = time.perf_counter()
        gradient = run(estimator, generator).double()
        if not counted:
            times.append((time.perf_counter() - start) * 1e3)
        # Welford's update: stable however many replicates there are.
        step = gradient - mean
        mean = mean + step / count
        square = square + step * (gradient - mean)
    variance = float(square.sum()) / (replicates - 1)
    bias = None if truth is None else float((mean - truth.double()).norm())
    return Measurement(
        name,
        bias,
        (variance / replicates) ** 0.5,
        variance,
        problem.distinct / problem.calls,
        statistics.median(times),
    )


def _count_distinct(samples: Tensor) -> int:
    """Distinct rows of ``[N, *batch, D]`` along the first dimension, summed over the batch."""
    rows = samples.reshape(samples.shape[0], -1, samples.shape[-1])
    labels = torch.unique(rows.flatten(0, 1), dim=0, return_inverse=True)[1]
    ordered = labels.view(rows.shape[:2]).sort(0).values
    return rows.shape[1] + int((ordered[1:] != ordered[:-1]).sum())
