"""Derivatives of ``f`` with respect to its samples."""

import math

import torch
from torch import Tensor

from carms.core.checks.tensors import holds

__all__ = ["check_dependence", "finite_slopes", "slope"]


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
    """The slopes; an error if one is NaN or infinite, except at categories that are never drawn.

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
