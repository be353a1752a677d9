"""Estimators that make the gradient from values of ``f`` alone."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from carms.core.derivatives import differentiated
from carms.core.dtypes import plain_numerics
from carms.core.probabilities import probabilities
from carms.core.products import exact_product
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw, Estimator

__all__ = ["Drawing", "own_values"]


class Drawing(Estimator):
    """Estimators whose samples depend on the probabilities only."""

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        self._check_categories(variables.logits.shape[-1])
        with plain_numerics(variables.logits):
            return self.draw_unchecked(variables, probabilities(variables.logits), generator)

    def draw_unchecked(
        self, variables: Variables, probs: Tensor, generator: torch.Generator | None
    ) -> Draw:
        """``sample`` for variables whose ``probs [*batch, D, C]`` are known to be good."""
        return Draw(self, variables, *self._draw(probs, generator))

    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        fz = self._check_values(draw, fz, terms)
        value = self.value(draw, fz if terms is None else fz.sum(-1))
        if not differentiated(draw.variables.logits):
            return value
        return self.with_gradient(value, draw, fz.detach(), terms)

    @abstractmethod
    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Any]:
        """Indices ``[N, *batch, D]`` and what to remember, from ``probs [*batch, D, C]``."""

    @abstractmethod
    def with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        """The value, whose backward pass also puts the estimate on the logits."""

    def value(self, draw: Draw, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


def own_values(fz: Tensor, terms: Tensor | None) -> Tensor:
    """Values by which each variable is judged: ``[N, *batch, D]``, the sums of the terms that
    depend on it; without terms ``[N, *batch, 1]``, the values themselves for all variables.
    """
    return fz.unsqueeze(-1) if terms is None else exact_product(fz, terms.detach().to(fz))
