"""Estimators that make the gradient from values of ``f`` alone."""

from abc import abstractmethod

import torch
from torch import Tensor

from carms.couplings.partition import Partition
from carms.estimators.base import (
    Draw,
    Estimator,
    plain_numerics,
    put_gradient,
    with_gradient_of,
)
from carms.inputs import Distribution, Variables, probabilities
from carms.precision import computing_dtype, precise_dtype
from carms.randomness import uniform
from carms.softmax import log_softmax

__all__ = ["Direct", "Drawing", "ScoreFunction", "independent_samples", "own_values"]


class Drawing(Estimator):
    """Estimators that know where to evaluate ``f`` from the probabilities alone."""

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        with plain_numerics(variables.logits):
            indices, extra = self._draw(probabilities(variables.logits), generator)
            return Draw(variables, indices, extra, maker=self)

    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        fz = self._check_values(draw, fz, terms)
        value = self._value(draw, fz if terms is None else fz.sum(-1))
        if not torch.is_grad_enabled():
            return value
        return self._with_gradient(value, draw, fz.detach(), terms)

    @abstractmethod
    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Indices ``[N, *batch, D]`` and what to remember, from ``probs [*batch, D, C]``."""

    @abstractmethod
    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        """The value, whose backward pass also puts the estimate on the logits."""

    def _value(self, draw: Draw, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


class ScoreFunction(Drawing):
    """Estimators ``sum_n w_n d log p(z_n) / d logits`` whose weights ``w`` are made of ``f``."""

    centred: bool = True
    """Whether the weights of each variable add up to zero, so that the normaliser drops out."""

    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            weights = self._weights(draw, own_values(fz.to(computing_dtype(fz.dtype)), terms))
        wide = logits.to(computing_dtype(logits.dtype))
        scores = wide if self.centred else log_softmax(wide)
        picked = scores.gather(-1, draw.indices.movedim(0, -1))
        term = (picked * weights.movedim(0, -1).to(wide.dtype)).sum((-2, -1))
        return with_gradient_of(value, term)

    def contributions(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        """``[N, *batch, D, C]``, one for each sample, whose mean is the gradient."""
        fz = self._check_values(draw, fz, terms).detach()
        with plain_numerics(fz):
            probs = probabilities(draw.variables.logits)
            weights = self._weights(draw, own_values(fz.to(computing_dtype(fz.dtype)), terms))
            score = draw.one_hot(probs.dtype) - probs
            return len(fz) * weights.unsqueeze(-1) * score

    @abstractmethod
    def _weights(self, draw: Draw, fz: Tensor) -> Tensor:
        """Weights ``[N, *batch, D]``, or ``[N, *batch, 1]`` where all variables share them, from
        the ``own_values`` of the variables.
        """


class Direct(Drawing):
    """Estimators that give the gradient of all logits as a tensor of their shape."""

    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            dtype = torch.promote_types(computing_dtype(fz.dtype), logits.dtype)
            gradient = self._gradient(draw, own_values(fz.to(dtype), terms))
        return put_gradient(value, logits, gradient)

    @abstractmethod
    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[*batch, D, C]`` from the ``own_values`` of the variables."""


def own_values(fz: Tensor, terms: Tensor | None) -> Tensor:
    """What each variable is judged by: ``[N, *batch, D]``, the sums of the terms that depend on it;
    without terms, ``[N, *batch, 1]``: the values themselves, for all variables.
    """
    return fz.unsqueeze(-1) if terms is None else fz @ terms.detach().to(fz)


def independent_samples(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """``[samples, *batch]`` independent categories from ``probs [*batch, C]``."""
    u = uniform((samples, *probs.shape[:-1]), generator, precise_dtype(probs.device), probs.device)
    return Partition.of(probs).category(u)
