"""Estimators that use derivatives of ``f`` without being biased by them, some of them learned."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from carms.core.dtypes import computing_dtype, without_autocast
from carms.core.surrogate import put_gradient
from carms.core.transforms import wants_gradient
from carms.estimators.base import Draw, Estimator

__all__ = ["ControlVariate"]


class ControlVariate(Estimator):
    """Estimators that make the gradient of all logits from derivatives of ``f``.

    If an estimator is ``learned``, its backward pass in ``train()`` mode also puts the gradient of
    its variance on its parameters, for an optimiser of their own. That gradient does not depend on
    what the value is multiplied by before ``backward()``, so it must not be clipped or unscaled
    together with other gradients. Every backward pass adds it once more.
    """

    black_box = False
    no_terms = "its control variate is one for the whole sum"

    # The compiler cannot differentiate twice what it compiled, and leaves these calls to Python.
    expectation = torch.compiler.disable(Estimator.expectation)

    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        fz = self._check_values(draw, fz, terms)
        value = self.value(draw, fz)
        if not wants_gradient(draw.variables.logits):
            return value
        with without_autocast(fz):
            gradient = self._gradient(draw, fz.to(computing_dtype(fz.dtype)))
        value = put_gradient(value, draw.variables.logits, gradient.detach())
        if not self.training or not gradient.requires_grad:
            return value
        parameters = [each for each in self.parameters() if each.requires_grad]
        if not parameters:
            return value
        # The mean of an unbiased gradient does not move, so its square is the variance.
        loss = gradient.square().sum() / max(1, value.numel())
        slopes = torch.autograd.grad(
            loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        # In the plain layout of the parameters, which distributed training compares with theirs.
        plain = [each.clone(memory_format=torch.contiguous_format) for each in slopes]
        learning: Tensor = _Learning.apply(value, *parameters, *plain)  # type: ignore[no-untyped-call]
        return learning

    @abstractmethod
    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[*batch, D, C]`` from the values ``fz`` with their graph; with a graph of its own to
        the parameters that are learned.
        """

    def value(self, draw: Draw, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


class _Learning(torch.autograd.Function):
    """The value, whose backward pass also gives each parameter its own gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors[len(tensors) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.saved_tensors
        return upstream[0], *slopes, *[None] * len(slopes)
