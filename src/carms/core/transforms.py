"""A clear error for what does not work inside the transforms of ``torch.func``."""

import torch

__all__ = ["no_transforms"]


class no_transforms:  # noqa: N801  named like torch.no_grad
    """Explain the error of what cannot be done inside transforms such as ``torch.func.vmap``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError) and _of_transforms(error):
            raise RuntimeError(
                "this estimator does not work inside torch.func transforms such as grad and vmap; "
                "use torch.autograd.grad, and make a batch dimension of what is mapped over"
            ) from error


def _of_transforms(error: RuntimeError) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return False
    # A batched backward pass, as of `is_grads_batched`, is no level of the stack.
    inside = torch._C._functorch.peek_interpreter_stack() is not None
    return inside or "Batching rule" in str(error)
