"""Bias, variance and cost of estimators on the user's own problem."""

import statistics
import time
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli

from carms.core.checks.options import whole_number
from carms.core.dtypes import precise_dtype
from carms.core.variables import Distribution, Variables
from carms.estimators import Estimator, Name, make
from carms.estimators.base import Objective
from carms.estimators.exact import MAX_CONFIGURATIONS, Exact

__all__ = ["Comparison", "Measurement", "compare"]

# Distinct evaluations are counted on so many calls at the most; only the others are timed.
_COUNTED_CALLS = 200

# Numbers in the one-hot samples of an enumeration, beyond which the bias is not worth its memory.
_LARGEST_ENUMERATION = 1 << 26


@dataclass(frozen=True)
class Measurement:
    """What ``compare`` found out about one estimator.

    Attributes:
        estimator: its name.
        samples: how many it draws per call.
        bias: length of the mean gradient minus the exact one; None where that is not feasible.
        standard_error: what ``bias`` would typically be by chance, were there none.
        variance: of the gradient, summed over all logits.
        evaluations: distinct points at which ``f`` was evaluated, mean per example and call.
        milliseconds: median time of a call with its backward pass.
    """

    estimator: str
    samples: int
    bias: float | None
    standard_error: float
    variance: float
    evaluations: float
    milliseconds: float


@dataclass(frozen=True)
class Comparison:
    """A table of measurements: ``print`` it, show it in a notebook, or take its ``to_dict()``."""

    measurements: tuple[Measurement, ...]
    replicates: int

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Each estimator's measurements by name."""
        rows = {row.estimator: asdict(row) for row in self.measurements}
        for row in rows.values():
            del row["estimator"]
        return rows

    def _cells(self) -> list[list[str]]:
        header = ["estimator", "samples", "bias", "std. error", "variance", "evaluations", "ms"]
        return [header] + [
            [
                row.estimator,
                str(row.samples),
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
        lines.append(f"{self.replicates} replicates")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        caption = f"<caption>{self.replicates} replicates</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>"


def compare(
    f: Objective,
    logits: Distribution,
    estimators: Name | str | Estimator | Sequence[Name | str | Estimator] | None = None,
    samples: int = 4,
    replicates: int = 1000,
    generator: torch.Generator | None = None,
    *,
    one_hot: bool = True,
    terms: Tensor | None = None,
) -> Comparison:
    """Measure estimators on a problem of your own, taking turns.

    Args:
        f: as for ``carms.expectation``.
        logits: as for ``carms.expectation``; ``f`` may depend on them.
        estimators: names, or objects from [`carms.make`][], which stay as they are. Defaults to a
            choice that suits the problem, with ``carms-t`` where ``f`` is differentiable.
        samples: for those given by name.
        replicates: independent gradients per estimator, at least 2.
        generator: source of randomness; the global one if None.
        one_hot: as for ``carms.expectation``.
        terms: as for ``carms.expectation``.

    Examples:
        >>> f = lambda z: z[..., 0].sum(-1)
        >>> table = compare(f, torch.zeros(2, 3), ["loorf"], replicates=10)
        >>> sorted(table.to_dict()["loorf"])
        ['bias', 'evaluations', 'milliseconds', 'samples', 'standard_error', 'variance']
    """
    samples, replicates = whole_number("samples", samples), whole_number("replicates", replicates)
    if replicates < 2:
        raise ValueError(f"a variance needs at least 2 replicates, got replicates={replicates}")
    with torch.enable_grad():
        problem = _Problem(f, logits, one_hot, terms)
        categories = problem.logits.shape[-1]
        if not problem.logits.numel():
            shape = list(problem.logits.shape)
            raise ValueError(f"there is nothing to compare in logits of shape {shape}")
        if estimators is None:
            estimators = ["reinforce", "loorf", "carms-i", "carms-g", "carms-s"]
            if problem.differentiable():
                estimators += ["carms-t"]
            if categories == 2:
                estimators += ["arms"] if samples % 2 else ["arms", "disarm"]
        if isinstance(estimators, str | Estimator):
            estimators = [estimators]
        if not isinstance(estimators, Iterable) or not (estimators := list(estimators)):
            raise ValueError(
                f"estimators must be one or more names or estimators, got {estimators!r}"
            )
        runs = [_Run(problem, entry, samples, generator) for entry in estimators]
        truth = problem.exact_gradient()
        for turn in range(replicates):
            for run in runs:
                run.repeat(counted=turn < min(_COUNTED_CALLS, replicates // 2))
    names = _distinct_names([run.name for run in runs])
    measurements = [run.measurement(name, truth) for run, name in zip(runs, names, strict=True)]
    return Comparison(tuple(measurements), replicates)


class _Problem:
    """``f`` and its logits, ready for many gradients with respect to them."""

    def __init__(
        self, f: Objective, given: Distribution, one_hot: bool, terms: Tensor | None
    ) -> None:
        self.f, self.one_hot, self.terms = f, one_hot, terms
        variables = Variables.of(given)
        groups = variables.groups or (variables,)
        self._binary = [group.binary for group in groups]
        self._leaves = [_leaf(group) for group in groups]
        own = tuple(
            Bernoulli(logits=leaf, validate_args=False) if binary else leaf
            for leaf, binary in zip(self._leaves, self._binary, strict=True)
        )
        self.variables: Distribution = own if variables.groups else own[0]
        self.logits = Variables.of(self.variables).logits

    def gradient(
        self, estimator: Estimator, generator: torch.Generator | None, f: Objective | None = None
    ) -> Tensor:
        value = estimator.expectation(
            f or self.f, self.variables, generator, one_hot=self.one_hot, terms=self.terms
        )
        # The graph of what `f` closes over is the user's: leave it usable.
        found = torch.autograd.grad(value.sum(), self._leaves, retain_graph=True)
        return torch.cat([each.flatten() for each in found])

    def differentiable(self) -> bool:
        """Whether ``f`` has slopes that autograd sees, found out on random numbers of its own."""
        aside = torch.Generator(self.logits.device).manual_seed(0)
        try:
            self.gradient(make("carms-t", samples=2), aside)
        except Exception:
            # Whatever it is: if it is not about slopes, the other estimators will meet it too.
            return False
        return True

    def exact_gradient(self) -> Tensor | None:
        """By enumeration, where that is feasible."""
        *_, variables, categories = self.logits.shape
        count = categories**variables
        if count > MAX_CONFIGURATIONS or count * self.logits.numel() > _LARGEST_ENUMERATION:
            return None
        return self.gradient(Exact(), None)

    def as_indices(self, *seen: Tensor) -> Tensor:
        """``[N, *batch, D + 1]`` from what ``f`` was given: categories, and a number of its own for
        every relaxed point, which is no other.
        """
        if not self.one_hot:
            return torch.nn.functional.pad(torch.cat(seen, -1), (0, 1))
        indices, soft = list[Tensor](), list[Tensor]()
        for z, binary in zip(seen, self._binary, strict=True):
            indices.append((z > 0.5).long() if binary else z.argmax(-1))
            soft.append((z % 1 != 0).any(-1) if binary else (z.amax(-1) < 1).any(-1))
        relaxed = torch.stack(soft).any(0)
        numbers = torch.arange(1, relaxed.numel() + 1, device=relaxed.device).view(relaxed.shape)
        return torch.cat((*indices, (relaxed * numbers).unsqueeze(-1)), -1)


def _leaf(group: Variables) -> Tensor:
    """The logits with respect to which to differentiate: those of one, if it is a Bernoulli."""
    own = group.logits
    if group.binary:
        # Not the `logits` of the distribution, which torch clamps and then remembers.
        own = (own[..., 1] - own[..., 0]).clamp_max(torch.finfo(own.dtype).max)
    return own if own.requires_grad else own.detach().clone().requires_grad_()


class _Run:
    """One estimator on one problem, with running moments of its gradients."""

    def __init__(
        self,
        problem: _Problem,
        entry: str | Estimator,
        samples: int,
        generator: torch.Generator | None,
    ) -> None:
        self.problem, self.generator = problem, generator
        # A copy: what it remembers of these calls is not for the calls that its owner makes.
        self.estimator = (
            deepcopy(entry) if isinstance(entry, Estimator) else make(entry, samples=samples)
        )
        made = self.estimator
        # Parameters would never move; but a memory of past calls is a part of what is measured.
        if isinstance(entry, str) and made.learned:
            made.eval()
        self.name = entry if isinstance(entry, str) else repr(entry)
        self.count, self.times = 0, list[float]()
        self.examples = self.distinct = 0
        precise = precise_dtype(problem.logits.device)
        self.mean = self.square = torch.zeros((), dtype=precise, device=problem.logits.device)

    def repeat(self, counted: bool) -> None:
        start = _now(self.mean.device)
        gradient = self.problem.gradient(
            self.estimator, self.generator, self._counting if counted else None
        )
        if not counted:
            self.times.append(_now(self.mean.device) - start)
        # Welford's update: stable however many replicates there are.
        self.count += 1
        step = gradient.to(self.mean.dtype) - self.mean
        self.mean = self.mean + step / self.count
        self.square = self.square + step * (gradient - self.mean)

    def measurement(self, name: str, truth: Tensor | None) -> Measurement:
        variance = float(self.square.sum()) / (self.count - 1)
        return Measurement(
            estimator=name,
            samples=self.estimator.samples,
            bias=None if truth is None else float((self.mean - truth).norm()),
            standard_error=(variance / self.count) ** 0.5,
            variance=variance,
            evaluations=self.distinct / self.examples,
            milliseconds=statistics.median(self.times) * 1e3,
        )

    def _counting(self, *seen: Tensor) -> Tensor:
        indices = self.problem.as_indices(*seen)
        rows = indices.reshape(indices.shape[0], -1, indices.shape[-1])
        labels = torch.unique(rows.flatten(0, 1), dim=0, return_inverse=True)[1]
        ordered = labels.view(rows.shape[:2]).sort(0).values
        self.examples += rows.shape[1]
        self.distinct += rows.shape[1] + int((ordered[1:] != ordered[:-1]).sum())
        return self.problem.f(*seen)


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def _distinct_names(names: list[str]) -> list[str]:
    """Number those that occur more than once."""
    return [
        f"{name} ({names[: k + 1].count(name)})" if names.count(name) > 1 else name
        for k, name in enumerate(names)
    ]
