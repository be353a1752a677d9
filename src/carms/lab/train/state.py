"""The state of a training, as tensors by name."""

from collections.abc import Mapping

from torch import Tensor

__all__ = ["joined", "misfit", "part"]


def joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of several parts in one dictionary, each name after that of its part.

    Examples:
        >>> import torch
        >>> joined({"model": {"bias": torch.ones(1)}})
        {'model.bias': tensor([1.])}
    """
    return {
        f"{which}.{name}": value
        for which, tensors in parts.items()
        for name, value in tensors.items()
    }


def part(tensors: Mapping[str, Tensor], which: str) -> dict[str, Tensor]:
    """The tensors of one part, as ``joined`` had them."""
    prefix = f"{which}."
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def misfit(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Why tensors cannot take the place of others; None if they can."""
    for name in sorted({*expected, *tensors}):
        if name not in tensors:
            return f"{name} is missing"
        if name not in expected:
            return f"it has no {name}"
        if _kind(tensors[name]) != _kind(expected[name]):
            return f"{name} is {_kind(tensors[name])}, expected {_kind(expected[name])}"
    return None


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
