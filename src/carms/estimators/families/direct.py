"""Estimators that give the gradient of all logits as one tensor."""

from abc import abstractmethod

import torch
from torch import Tensor

from carms.core.dtypes import computing_dtype, plain_numerics
from carms.core.surrogate import put_gradient
from carms.estimators.base import Draw
from carms.estimators.families.drawing import Drawing, own_values

__all__ = ["Direct", "uncertain"]


class Direct(Drawing):
    """Estimators that give the gradient of all logits as a tensor of their shape."""

    def with_gradient(self, value: Tensor, draw: Draw, fz: Tensor, terms: Tensor | None) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            dtype = torch.promote_types(computing_dtype(fz.dtype), logits.dtype)
            gradient = self._gradient(draw, own_values(fz.to(dtype), terms))
        return put_gradient(value, logits, gradient)

    @abstractmethod
    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[*batch, D, C]`` from the ``own_values`` of the variables."""


def uncertain(probs: Tensor) -> Tensor:
    """``[*batch, D, C]``: True for possible categories of variables that have more than one."""
    possible = probs > 0
    return possible & (possible.sum(-1, keepdim=True) > 1)
