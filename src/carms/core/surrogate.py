"""Values whose backward pass has another gradient than their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "after_backward",
    "first_derivative_only",
    "put_gradient",
    "with_gradient_of",
    "zeros_with_gradient_of",
]


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
    wide = first_derivative_only(logits.to(gradient.dtype))
    zeros = torch.where(wide.isneginf(), 0, zeros_with_gradient_of(wide))
    return value + (zeros * gradient).sum((-2, -1)).to(value.dtype)


def first_derivative_only(values: Tensor) -> Tensor:
    """A view of ``values`` whose gradient cannot be differentiated again: an estimate of a gradient
    does not contain what its derivative would be.
    """
    view = values.view_as(values)
    if view.requires_grad and not torch.compiler.is_compiling():
        view.register_hook(lambda gradient: _refuse_second(gradient, values))
    return view


def _refuse_second(gradient: Tensor, values: Tensor) -> Tensor:
    # Gradients are enabled in a backward pass with `create_graph` alone.
    if not torch.is_grad_enabled():
        return gradient
    found: Tensor = _Once.apply(gradient, values)  # type: ignore[no-untyped-call]
    return found


class _Once(torch.autograd.Function):
    """The gradient of values, which depends on them in a way that nobody knows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, values: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Remember nothing: torch wants this from functions that its transforms meet."""

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise RuntimeError(
            "carms estimates first derivatives: this gradient cannot be differentiated once more"
        )


def after_backward(value: Tensor, action: Callable[[], None]) -> None:
    """Call ``action`` at the end of a backward pass through ``value``.

    Until then all stays as it is, so that a forward pass that is computed once more for the
    backward pass, as by ``torch.utils.checkpoint``, finds the same memory as the first.
    """
    if torch.compiler.is_compiling():
        action()
    elif value.requires_grad:
        engine = torch.autograd.Variable._execution_engine
        value.register_hook(lambda _: engine.queue_callback(action))
