"""Actions that wait for the backward pass."""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["after_backward", "at_end_of_backward"]


def after_backward(value: Tensor, action: Callable[[], None]) -> None:
    """Call ``action`` at the end of a backward pass through ``value``.

    Until then all stays as it is, so that a forward pass that is computed once more for the
    backward pass, as by ``torch.utils.checkpoint``, finds the same memory as the first.
    """
    if torch.compiler.is_compiling():
        action()
    elif value.requires_grad:
        value.register_hook(lambda _: at_end_of_backward(action))


def at_end_of_backward(action: Callable[[], None]) -> None:
    """Call ``action`` at the end of the backward pass that is under way."""
    if torch.compiler.is_compiling():
        action()
    else:
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: _attempt(action))


def _attempt(action: Callable[[], None]) -> None:
    """Call ``action``, unless a transform of torch.func refuses it, since these allow no memory."""
    try:
        action()
    except RuntimeError as error:
        if "captured" not in str(error) and "vmap" not in str(error):
            raise
