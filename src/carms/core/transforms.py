"""A clear error for what does not work inside the transforms of ``torch.func``."""

import torch
from torch import Tensor

from carms.core.derivatives import has_tangent

__all__ = ["no_transforms", "wants_gradient"]

_REFUSED = (
    "this estimator does not work inside torch.func transforms such as grad and vmap, nor in "
    "forward mode; use torch.autograd.grad, and make a batch dimension of what is mapped over"
)


def wants_gradient(logits: Tensor) -> bool:
    """Whether autograd needs the gradient of the logits; raises in forward mode."""
    if has_tangent(logits):
        raise RuntimeError(_REFUSED)
    return torch.is_grad_enabled() and logits.requires_grad


class no_transforms:  # noqa: N801  named like torch.no_grad
    """Explain the error of what cannot be done inside transforms such as ``torch.func.vmap``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError) and _of_transforms(error):
            raise RuntimeError(_REFUSED) from error


def _of_transforms(error: RuntimeError) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return False
    # A batched backward pass, as of `is_grads_batched`, is no level of the stack.
    inside = torch._C._functorch.peek_interpreter_stack() is not None
    return inside or "Batching rule" in str(error)
