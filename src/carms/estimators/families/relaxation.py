"""Estimators that differentiate ``f`` through samples made of the logits."""

from abc import abstractmethod

import torch
from torch import Tensor

from carms.core.checks.tensors import holds
from carms.core.dtypes import without_autocast
from carms.core.one_hot import one_hot
from carms.core.probabilities import probabilities
from carms.core.surrogate import first_derivative_only
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw, Estimator
from carms.estimators.families.slopes import check_dependence

__all__ = ["Relaxation", "with_slope"]


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
