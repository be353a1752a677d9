"""Which estimators take part in a task, with how many samples, and why the others do not."""

from functools import cache

import torch

from carms.estimators import Estimator, available, find, make
from carms.lab.contest.task import Entry

__all__ = ["OVERDRAFT", "categorical_entries"]

# An estimator that cannot make do with the budget may use this multiple of it.
OVERDRAFT = 8
# Draws over which a random number of evaluations is averaged.
REPETITIONS = 20


@cache
def categorical_entries(
    variables: int, categories: int, budget: int, differentiable: bool
) -> tuple[Entry, ...]:
    """All estimators, each with the most samples that the budget allows.

    Args:
        variables: number of variables, D.
        categories: of each variable, C.
        budget: evaluations of ``f`` for a gradient.
        differentiable: whether ``f`` has a gradient.

    Examples:
        >>> entries = {e.name: e for e in categorical_entries(12, 5, 10, differentiable=False)}
        >>> entries["loorf"].samples, entries["finite-difference"].samples
        (10, 3)
        >>> entries["arm"].reason
        'it is for binary variables'
    """
    shape = variables, categories
    return tuple(_entry(name, shape, budget, differentiable) for name in available())


def _entry(name: str, shape: tuple[int, int], budget: int, differentiable: bool) -> Entry:
    kind = find(name)
    if kind.binary_only and shape[1] != 2:
        return Entry(name, reason="it is for binary variables")
    if not kind.black_box and not differentiable:
        return Entry(name, reason="it needs the gradient of f")
    step, least = 2 if kind.paired else 1, max(kind.least_samples, 1)
    for samples in range(max(budget - budget % step, least), least - 1, -step):
        evaluations = _evaluations(make(name, samples=samples), shape)
        if evaluations <= budget:
            break
    if evaluations > OVERDRAFT * budget:
        return Entry(
            name,
            reason=f"a gradient takes at least {evaluations:.3g} evaluations, and the budget is "
            f"{budget}",
        )
    return Entry(name, samples, evaluations, unbiased=kind.unbiased)


def _evaluations(estimator: Estimator, shape: tuple[int, int]) -> float:
    """The number of evaluations of a gradient; its mean at equal logits if it is random."""
    known = estimator.evaluations(*shape)
    if known is not None:
        return known
    stream = torch.Generator().manual_seed(0)
    counts = [len(estimator.sample(torch.zeros(shape), stream).indices) for _ in range(REPETITIONS)]
    return sum(counts) / REPETITIONS
