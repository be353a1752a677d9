"""``carms.expectation``, the main function."""

# Annotations stay text, so that `help` shows `Name` and not all names.
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from carms.core.variables import Distribution
from carms.estimators import Estimator, Name
from carms.estimators.base import Objective
from carms.estimators.registry import resolve

__all__ = ["expectation"]


def expectation(
    f: Objective,
    logits: Distribution,
    estimator: Name | str | Estimator = "carms-s",
    samples: int | None = None,
    generator: torch.Generator | None = None,
    *,
    one_hot: bool = True,
    terms: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Estimate ``E f(z)`` for ``z ~ Cat(softmax(logits))``, ready to be differentiated.

    The backward pass puts the estimator's gradient on the logits and the ordinary one on all else
    that ``f`` used, including the logits where ``f`` depends on them itself.

    Args:
        f: takes samples ``[N, *batch, D, C]``, one-hot, and returns values ``[N, *batch]``. With a
            Bernoulli, samples are zeros and ones ``[N, *batch, D]``. Values are a dense tensor of
            finite floats on the device of the samples. The value of an example may depend on its
            own sample only: batch normalisation inside ``f`` makes the gradient wrong. ``f`` may
            write on its samples or return a view of them. It is called even if the batch is empty.
        logits: ``[*batch, D, C]``: D variables of C categories each; ``-inf`` marks a category that
            is never drawn. Or a ``Categorical``, ``OneHotCategorical`` or ``Bernoulli``, whose last
            batch dimension is that of the D variables, with or without ``Independent(..., 1)``
            around it. Or a tuple of these, groups of variables with different numbers of
            categories: ``f`` then takes the samples of each group as an argument of its own.
        estimator: a name from [`carms.available`][], or an object from [`carms.make`][], which
            has its own samples and options. One that has to be trained first must be an object.
        samples: number of samples N of an estimator given by name. Defaults to 8. Some estimators
            evaluate ``f`` several times for a sample.
        generator: source of randomness; the global one if None.
        one_hot: False to give ``f`` indices ``[N, *batch, D]`` instead, for many categories.
        terms: for an ``f`` that returns the terms ``[N, *batch, K]`` of a sum: ``[K, D]``, True (or
            1) where a term depends on a variable. Each variable is then judged by its own terms
            alone, which is unbiased all the same and has less variance. The value is that of the
            whole sum.
        options: further options of the estimator.

    Returns:
        The estimate ``[*batch]``. Call ``backward()`` on it, or on a loss that is linear in it: in
        its square or logarithm, value and gradient would share their samples, which is a bias.

    Raises:
        ValueError: if a value does not fit, or if samples would take more than all the memory of
            the machine.
        TypeError: if a value has the wrong type.

    Examples:
        >>> logits = torch.zeros(3, 4, requires_grad=True)  # three variables of four categories
        >>> value = expectation(lambda z: z[..., 0].sum(-1), logits, samples=4)
        >>> value.backward()
        >>> logits.grad.shape
        torch.Size([3, 4])
    """
    made = resolve(estimator, samples, options)
    return made.expectation(f, logits, generator, one_hot=one_hot, terms=terms)
