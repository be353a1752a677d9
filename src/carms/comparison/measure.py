"""``carms.compare``: bias, variance and time of estimators on one problem."""

# Annotations stay text, so that `help` shows `Name` and not all names.
from __future__ import annotations

import torch
from torch import Tensor

from carms.comparison.entries import Entries, contestants
from carms.comparison.problem import Problem
from carms.comparison.run import Run
from carms.comparison.table import Comparison
from carms.core.checks.options import check_flag, whole_number
from carms.core.variables import Distribution
from carms.estimators import find
from carms.estimators.base import Estimator, Objective

__all__ = ["compare"]

# The largest number of calls on which distinct evaluations are counted; only the others are timed.
_COUNTED_CALLS = 200
# With more of them, averages over all orderings take longer than anything else in a comparison.
_MOST_CATEGORIES = 64


def compare(
    f: Objective,
    logits: Distribution,
    estimators: Entries | None = None,
    samples: int | None = None,
    replicates: int = 1000,
    generator: torch.Generator | None = None,
    *,
    train: int = 300,
    bias: bool = True,
    one_hot: bool = True,
    terms: Tensor | None = None,
) -> Comparison:
    """Measure estimators on a problem of your own, taking turns.

    [`carms.Comparison`][] explains the columns of the table.

    Args:
        f: as for ``carms.expectation``.
        logits: as for ``carms.expectation``; ``f`` may depend on them.
        estimators: each a name, a name with options such as ``("carms-i", {"epsilon": 0.1})``, or
            an object from [`carms.make`][]: one of them, a list, or a dictionary with labels for
            keys. A name is measured as a call by name. A copy of an object is measured as an object
            that is kept: ``carms-t`` and ``ridge`` learn from call to call where there is no batch.
            Defaults to a choice that suits the problem, with ``carms-t`` where ``f`` is
            differentiable.
        samples: number of samples of those given by name. Defaults to 8, as in
            ``carms.expectation``.
        replicates: number of independent gradients per estimator, at least 2.
        generator: source of randomness; the global one if None.
        train: number of steps for which the parameters of those given by name are trained before.
            The table says which have any.
        bias: whether to measure the bias. For the exact gradient, ``f`` is evaluated at all
            ``C^D`` configurations, in calls of at most 1,024, if there are at most 65,536, and at
            most 2^26 when multiplied by the number of logits. A random ``f``, as with dropout, has
            no exact gradient that could be known, and so no bias in the table.
        one_hot: as for ``carms.expectation``.
        terms: as for ``carms.expectation``.

    Examples:
        >>> f = lambda z: z[..., 0].sum(-1)
        >>> table = compare(f, torch.zeros(2, 3), {"plain": "loorf"}, replicates=10)
        >>> sorted(table.to_dict()["plain"])  # doctest: +NORMALIZE_WHITESPACE
        ['bias', 'evaluations', 'milliseconds', 'per_evaluation', 'per_millisecond', 'samples',
         'standard_error', 'trained', 'variance']
    """
    samples = None if samples is None else whole_number("samples", samples)
    replicates, train = whole_number("replicates", replicates), whole_number("train", train, 0)
    check_flag("bias", bias)
    if replicates < 2:
        raise ValueError(f"a variance needs at least 2 replicates, got replicates={replicates}")
    with torch.inference_mode(False), torch.enable_grad():
        problem = Problem(f, logits, one_hot, terms)
        if not problem.logits.numel():
            shape = list(problem.logits.shape)
            raise ValueError(f"there is nothing to compare in logits of shape {shape}")
        entries = _usual(problem, samples) if estimators is None else estimators
        runs = [Run(problem, each, generator, train) for each in contestants(entries, samples)]
        truth = problem.exact_gradient() if bias else None
        counted_calls = min(_COUNTED_CALLS, replicates // 2)
        for turn in range(replicates):
            for run in runs:
                if turn < counted_calls:
                    run.counted_call()
                else:
                    run.timed_call()
    rows = tuple(run.measurement(truth) for run in runs)
    return Comparison(rows, replicates, problem.random)


def _usual(problem: Problem, samples: int | None) -> list[str]:
    """Names of estimators that suit a problem."""
    names = ["reinforce", "loorf", "carms-i", "carms-g", "carms-s"]
    if problem.logits.shape[-1] > _MOST_CATEGORIES:
        names.remove("carms-i")
    if problem.differentiable():
        names += ["carms-t"]
    if problem.logits.shape[-1] == 2:
        names += ["arms", "disarm"]
    return [name for name in names if samples is None or _can_draw(find(name), samples)]


def _can_draw(kind: type[Estimator], samples: int) -> bool:
    return samples >= kind.least_samples and not (kind.paired and samples % 2)
