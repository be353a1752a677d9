"""Which derivatives torch is asked for."""

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

__all__ = ["differentiated", "has_tangent"]


def has_tangent(values: Tensor) -> bool:
    """Whether forward mode differentiates with respect to the values."""
    return not torch.compiler.is_compiling() and unpack_dual(values).tangent is not None


def differentiated(logits: Tensor) -> bool:
    """Whether the gradient may be asked for.

    ``logits.requires_grad`` does not tell: in ``torch.func.grad`` of a ``vmap`` it is False inside,
    although the outer ``grad`` differentiates. And ``torch.no_grad()`` does not switch forward mode
    off.
    """
    return torch.is_grad_enabled() or has_tangent(logits)
