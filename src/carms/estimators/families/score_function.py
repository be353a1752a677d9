"""Estimators that weigh the scores of their samples."""

from abc import abstractmethod

from torch import Tensor

from carms.core.dtypes import computing_dtype, plain_numerics
from carms.core.softmax import log_softmax
from carms.core.surrogate import first_derivative_only, zeros_with_gradient_of
from carms.core.variables import probabilities
from carms.estimators.base import Draw
from carms.estimators.families.drawing import Drawing, own_values

__all__ = ["ScoreFunction"]


class ScoreFunction(Drawing):
    """Estimators ``sum_n w_n d log p(z_n) / d logits`` whose weights ``w`` are made of ``f``.

    Attributes:
        balanced: whether the weights of each variable add up to zero. The samples are then compared
            with each other, and the normaliser of the probabilities drops out.
    """

    balanced: bool = False

    def with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            weights = self.weights(draw, own_values(fz.to(computing_dtype(fz.dtype)), terms))
        wide = first_derivative_only(logits.to(computing_dtype(logits.dtype)))
        scores = wide if self.balanced else log_softmax(wide)
        picked = scores.gather(-1, draw.indices.movedim(0, -1))
        zeros = zeros_with_gradient_of(picked)
        term = (zeros * weights.movedim(0, -1).to(wide.dtype)).sum((-2, -1))
        return value + term.to(value.dtype)

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
