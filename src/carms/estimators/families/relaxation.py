"""Estimators that differentiate ``f`` through samples made of the logits."""

from abc import abstractmethod

import torch
from torch import Tensor

from carms.core.checks.tensors import holds
from carms.core.dtypes import without_autocast
from carms.core.one_hot import one_hot
from carms.core.surrogate import first_derivative_only
from carms.core.variables import Distribution, Variables, probabilities
from carms.estimators.base import Draw, Estimator
from carms.estimators.families.slopes import no_slope

__all__ = ["Relaxation", "check_dependence", "with_slope"]


class Relaxation(Estimator):
    """Estimators that let the gradient of ``f`` flow back through samples made of the logits."""

    unbiased = False
    black_box = False
    no_terms = "the slope of f with respect to a variable leaves out all other terms already"

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        probs = probabilities(variables.logits)
        with without_autocast(probs):
            wide = variables.logits.to(probs.dtype)
            if not self.soft:
                # Hard samples are given slopes, whose own derivatives mean nothing.
                wide = first_derivative_only(wide)
            indices, z = self._reparameterise(wide, probs, generator)
            impossible = wide.isneginf()
            if holds(impossible.any):
                # Slopes at categories that are never drawn do not matter, even if they are NaN.
                z = torch.where(impossible, 0, z)
            return Draw(self, variables, indices, None, z)

    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        fz = self._check_values(draw, fz, terms)
        check_dependence(self, fz, draw.differentiable)
        return fz.mean(0)

    @abstractmethod
    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Indices ``[N, *batch, D]``, and what ``f`` sees of them: a new, contiguous tensor
        ``[N, *batch, D, C]`` whose graph leads to the logits ``[*batch, D, C]``.
        """


def with_slope(indices: Tensor, zeros: Tensor) -> Tensor:
    """One-hot samples ``[N, *batch, D, C]`` of ``indices [N, *batch, D]`` that have the derivative
    of ``zeros``, which broadcast to them.
    """
    return one_hot(indices, zeros.shape[-1], zeros.dtype) + zeros


def check_dependence(estimator: object, values: Tensor, z: Tensor | None) -> None:
    """Raise if autograd does not lead from the values of ``f`` to the samples."""
    if not torch.compiler.is_compiling() and not _leads_to(values, z):
        raise no_slope(estimator)


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
