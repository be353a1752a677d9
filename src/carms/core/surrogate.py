"""Values whose backward pass has another gradient than their own."""

from typing import Any

import torch
from torch import Tensor

from carms.core.derivatives import has_tangent
from carms.core.dtypes import computing_dtype
from carms.core.softmax import log_softmax

__all__ = [
    "first_derivative_only",
    "put_gradient",
    "put_scores",
    "tied",
    "with_gradient_of",
    "zeros_with_gradient_of",
]

_SECOND = "carms estimates first derivatives: this gradient cannot be differentiated once more"


def zeros_with_gradient_of(term: Tensor) -> Tensor:
    """Zeros of the shape of ``term``, whose backward pass is that of ``term``.

    A product with them has the gradient of a product with ``term``, but does not overflow where
    ``term`` is large.
    """
    return term - term.detach()


def with_gradient_of(value: Tensor, term: Tensor) -> Tensor:
    """``value``, whose backward pass is also that of ``term``."""
    return value + zeros_with_gradient_of(term).to(value.dtype)


def put_gradient(value: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    """``value [*batch]``, whose backward pass also puts ``gradient [*batch, D, C]`` on the logits.

    Nothing is put on a logit of ``-inf``, whose category does not exist.
    """
    wide = first_derivative_only(logits.to(gradient.dtype), value)
    zeros = torch.where(wide.isneginf(), 0, zeros_with_gradient_of(wide))
    return tied(value, logits) + (zeros * gradient).sum((-2, -1)).to(value.dtype)


def put_scores(
    value: Tensor, logits: Tensor, indices: Tensor, weights: Tensor, *, balanced: bool = False
) -> Tensor:
    """``value [*batch]``, whose backward pass also puts ``sum_n w_n d log p(z_n)`` on the logits.

    Args:
        value: what to return.
        logits: ``[*batch, D, C]``.
        indices: ``[N, *batch, D]``, the samples ``z``.
        weights: ``w``, ``[N, *batch, D]`` or ``[N, *batch, 1]``.
        balanced: whether the weights add up to zero over n, so that the normaliser drops out.
    """
    wide = first_derivative_only(logits.to(computing_dtype(logits.dtype)), value)
    scores = wide if balanced else log_softmax(wide)
    zeros = zeros_with_gradient_of(scores.gather(-1, indices.movedim(0, -1)))
    term = (zeros * weights.movedim(0, -1).to(wide.dtype)).sum((-2, -1))
    return tied(value, logits) + term.to(value.dtype)


def first_derivative_only(values: Tensor, made: Tensor | None = None) -> Tensor:
    """A view of ``values`` whose gradient refuses to be differentiated again: the derivative of an
    estimated gradient does not estimate the second derivative.

    Args:
        values: what to differentiate with respect to.
        made: what the gradient is made of, if that depends on other tensors: a derivative of the
            gradient with respect to these is refused, too.
    """
    if torch.compiler.is_compiling():
        return values
    levels, others = _transforms_of(values), [] if made is None else _transforms_of(made)
    # An outer transform would differentiate the gradient that an inner one takes.
    if len(levels) > 1 or (levels and min(others, default=levels[0]) < levels[0]):
        raise RuntimeError(_SECOND)
    view = values.view_as(values)
    if view.requires_grad:
        view.register_hook(lambda gradient: _refuse_second(gradient, values, made))
    return view


def tied(value: Tensor, logits: Tensor) -> Tensor:
    """A view of ``value`` whose gradient refuses to be differentiated with respect to the logits.

    The gradient of a tensor that ``f`` used also depends on the logits, through the samples.
    Autograd does not see this, and would take the derivative for zero.
    """
    if torch.compiler.is_compiling() or not value.requires_grad:
        return value
    if not (logits.requires_grad or has_tangent(logits)):
        return value
    view = value.view_as(value)
    view.register_hook(lambda gradient: _tie(gradient, logits))
    return view


def _tie(gradient: Tensor, logits: Tensor) -> Tensor:
    if has_tangent(logits):
        # The tangent of this gradient would be a mixed derivative.
        raise RuntimeError(_SECOND)
    # Gradients are enabled in a backward pass with `create_graph` alone.
    if not torch.is_grad_enabled():
        return gradient
    zero: Tensor = _Zero.apply(logits)  # type: ignore[no-untyped-call]
    return gradient + zero.to(gradient.dtype)


def _transforms_of(values: Tensor) -> list[int]:
    """Levels of the transforms of torch.func that differentiate the values; outer ones are
    smaller.
    """
    levels, functorch = [], torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(values):
        if functorch.is_gradtrackingtensor(values):
            levels.append(functorch.maybe_get_level(values))
        values = functorch.get_unwrapped(values)
    return levels


def _refuse_second(gradient: Tensor, values: Tensor, made: Tensor | None) -> Tensor:
    if has_tangent(values) or (made is not None and has_tangent(made)):
        # The tangent of this gradient would be a second derivative.
        raise RuntimeError(_SECOND)
    # Gradients are enabled in a backward pass with `create_graph` alone.
    if not torch.is_grad_enabled():
        return gradient
    found: Tensor = _Once.apply(gradient, values, made)  # type: ignore[no-untyped-call]
    return found


class _FirstDerivativeOnly(torch.autograd.Function):
    """Base class of functions that raise an error if they are differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Remember nothing: torch wants this from functions that its transforms meet."""

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise RuntimeError(_SECOND)


class _Once(_FirstDerivativeOnly):
    """Pass a gradient on that depends on ``values`` and ``made``."""

    @staticmethod
    def forward(gradient: Tensor, values: Tensor, made: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)


class _Zero(_FirstDerivativeOnly):
    """Make a zero that depends on ``values``."""

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        return values.new_zeros(())
