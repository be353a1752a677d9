"""Derivatives of ``f`` with respect to its samples."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import holds
from carms.core.dtypes import plain_numerics
from carms.core.one_hot import one_hot
from carms.core.transforms import no_forward_mode, no_transforms
from carms.core.variables import Distribution, Variables, probabilities
from carms.estimators.base import Draw, Estimator
from carms.sampling.independent import independent_samples

__all__ = [
    "WithLeaf",
    "check_dependence",
    "finite_slopes",
    "independent_one_hot",
    "leaf",
    "samples_with_slopes",
    "slope",
    "wants_gradient",
]


def slope(estimator: object, values: Tensor, of: Tensor, create_graph: bool = False) -> Tensor:
    """The derivative of each value with respect to the sample ``of`` that it was made from."""
    found = None
    if values.requires_grad:
        (found,) = torch.autograd.grad(
            values.sum(), of, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    if found is None:
        raise _no_slope(estimator)
    return found


def finite_slopes(estimator: object, slopes: Tensor, possible: Tensor | None = None) -> Tensor:
    """The slopes, if all are finite but those of categories that are never drawn.

    Args:
        estimator: named in the error.
        slopes: ``[N, *batch, ...]``.
        possible: ``[*batch, ...]``, False for categories of probability zero; if None, all slopes
            count.
    """
    if holds(lambda: not math.isfinite(slopes.detach().sum())):
        if possible is not None:
            slopes = torch.where(possible, slopes, 0)
        if not slopes.isfinite().all():
            raise ValueError(
                f"{estimator} needs finite slopes of f at its samples, got NaN or infinite ones; "
                "loorf takes any f"
            )
    return slopes


def _no_slope(estimator: object) -> ValueError:
    """The error of an estimator that finds no way from the values of ``f`` to the samples."""
    return ValueError(
        f"{estimator} needs a differentiable f, but its values do not depend on z in a way that "
        "autograd sees; loorf takes any f"
    )


def check_dependence(estimator: object, values: Tensor, z: Tensor | None) -> None:
    """Raise if autograd does not lead from the values of ``f`` to the samples."""
    if not torch.compiler.is_compiling() and not _leads_to(values, z):
        raise _no_slope(estimator)


def _leads_to(values: Tensor, source: Tensor | None) -> bool:
    """Whether the graph of the values contains the source; True if there is no graph to search."""
    if source is None or source.grad_fn is None or not torch.is_grad_enabled():
        return True
    todo, seen = [values.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is source.grad_fn:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
    return False


def wants_gradient(logits: Tensor) -> bool:
    """Whether autograd needs the gradient of the logits; an error in forward mode."""
    no_forward_mode(logits)
    return torch.is_grad_enabled() and logits.requires_grad


def leaf(values: Tensor, variables: Variables) -> Tensor:
    """``values`` without their graph; they require a gradient if that of the logits is wanted."""
    with no_transforms():
        return values.detach().requires_grad_(wants_gradient(variables.logits))


class WithLeaf(NamedTuple):
    """What a draw remembers beside its samples.

    Attributes:
        probs: ``[*batch, D, C]``.
        leaf: ``[N, *batch, D, C]``, the one-hot samples with respect to which ``f`` has slopes.
    """

    probs: Tensor
    leaf: Tensor


def samples_with_slopes(
    maker: Estimator, logits: Distribution, generator: torch.Generator | None
) -> Draw[WithLeaf]:
    """Independent one-hot samples with respect to which ``f`` can be differentiated."""
    variables = Variables.of(logits)
    probs, indices, hard = independent_one_hot(maker.samples, variables, generator)
    seen = leaf(hard, variables)
    return Draw(maker, variables, indices, WithLeaf(probs, seen), differentiable=seen)


def independent_one_hot(
    samples: int, variables: Variables, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities ``[*batch, D, C]``, and independent samples: categories ``[N, *batch, D]``, and
    the same one-hot ``[N, *batch, D, C]``.
    """
    with plain_numerics(variables.logits):
        probs = probabilities(variables.logits)
        indices = independent_samples(probs, samples, generator)
        return probs, indices, one_hot(indices, probs.shape[-1], probs.dtype)
