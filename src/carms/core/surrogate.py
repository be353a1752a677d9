"""Values whose backward pass has another gradient than their own."""

import torch
from torch import Tensor

__all__ = ["put_gradient", "with_gradient_of"]


def put_gradient(value: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    """``value [*batch]``, whose backward pass also puts ``gradient [*batch, D, C]`` on the logits.

    Nothing is put on a logit of ``-inf``, whose category does not exist.
    """
    wide = logits.to(gradient.dtype)
    still = wide.detach()
    # Zeros with a graph: a product with the logits themselves would overflow where they are large.
    zeros = torch.where(still.isneginf(), 0, wide - still)
    return value + (zeros * gradient).sum((-2, -1)).to(value.dtype)


def with_gradient_of(value: Tensor, term: Tensor) -> Tensor:
    """``value``, whose backward pass is also that of ``term``."""
    return value + (term - term.detach()).to(value.dtype)
