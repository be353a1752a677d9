"""Estimators that weigh the scores of their samples."""

from abc import abstractmethod

from torch import Tensor

from carms.core.dtypes import computing_dtype, plain_numerics
from carms.core.probabilities import probabilities
from carms.core.surrogate import put_scores
from carms.estimators.base import Draw
from carms.estimators.families.drawing import Drawing, own_values

__all__ = ["ScoreFunction"]


class ScoreFunction(Drawing):
    """Estimators ``sum_n w_n d log p(z_n) / d logits`` whose weights ``w`` are made of ``f``."""

    def with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            weights = self.weights(draw, own_values(fz.to(computing_dtype(fz.dtype)), terms))
        return put_scores(value, logits, draw.drawn, weights, balanced=self.balanced)

    def contributions(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        """``[N, *batch, D, C]``, one for each sample, whose mean is the gradient."""
        fz = self._check_values(draw, fz, terms).detach()
        with plain_numerics(fz):
            probs = probabilities(draw.variables.logits)
            weights = self.weights(draw, own_values(fz.to(computing_dtype(fz.dtype)), terms))
            score = draw.one_hot(probs.dtype) - probs
            return len(fz) * weights.unsqueeze(-1) * score

    @abstractmethod
    def weights(self, draw: Draw, fz: Tensor) -> Tensor:
        """Weights ``[N, *batch, D]``, or ``[N, *batch, 1]`` where all variables share them, from
        the ``own_values`` of the variables.
        """
