"""Checks of tensors, shapes, dtypes, devices, generators and memory."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from carms.core.checks.options import whole_number

__all__ = [
    "check_broadcast",
    "check_device",
    "check_float_dtype",
    "check_floats",
    "check_function",
    "check_generator",
    "check_integers",
    "check_mask",
    "check_memory",
    "check_same_device",
    "check_shape",
    "holds",
]

_FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64
_INTEGERS = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def check_floats(name: str, value: object, layout: str = "") -> Tensor:
    """The tensor as it is, if it is dense, of 16 bits or more and not on the meta device.

    Args:
        name: what the user calls it.
        value: what was given.
        layout: the shape that it should have, for the message.

    Examples:
        >>> check_floats("logits", torch.zeros(2, 3, dtype=torch.int32))
        Traceback (most recent call last):
        TypeError: logits must be floating point, got torch.int32
    """
    if not isinstance(value, Tensor):
        expected = f"a tensor {layout}".rstrip()
        raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")
    _check_dense(name, value)
    if value.dtype not in _FLOATS:
        wide = " of 16 bits or more" if value.is_floating_point() else ""
        raise TypeError(f"{name} must be floating point{wide}, got {value.dtype}")
    return value


def check_integers(name: str, value: object) -> Tensor:
    """The tensor as it is, if it is one of integers."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(value).__name__}")
    _check_dense(name, value)
    if value.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be integers, got {value.dtype}")
    return value


def check_mask(name: str, value: Tensor) -> None:
    """Raise unless it is a dense tensor of real numbers or booleans."""
    _check_dense(name, value)
    if value.dtype not in (torch.bool, *_INTEGERS, *_FLOATS):
        raise TypeError(f"{name} must be booleans or numbers, got {value.dtype}")


def _check_dense(name: str, value: Tensor) -> None:
    """Raise unless it is an ordinary tensor with values; no value is looked at, so that this costs
    nothing on any device.
    """
    if value.is_nested:
        kind = "a nested one"
    elif value.layout is not torch.strided:
        kind = f"one of layout {value.layout}"
    elif value.device.type == "meta":
        kind = "one on the meta device, which has no values"
    else:
        return
    raise TypeError(f"{name} must be an ordinary dense tensor, got {kind}")


def check_generator(generator: object, device: torch.device | None) -> None:
    """Raise unless it is None, or a generator of the device."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {generator!r}")
    if device is not None and generator.device.type != device.type:
        raise ValueError(
            f"generator must be one of the device {device.type}, got one of {generator.device.type}"
        )


def check_function(name: str, value: object) -> None:
    """Raise unless it can be called."""
    if isinstance(value, Tensor):
        raise TypeError(f"{name} must be a function, got Tensor; are two arguments swapped?")
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}")


def check_shape(shape: Any) -> tuple[int, ...]:
    """The shape of a tensor as a tuple."""
    if not isinstance(shape, Iterable) or isinstance(shape, str | bytes | Tensor):
        raise TypeError(f"shape must be a sequence of sizes, got {shape!r}")
    sizes = tuple(whole_number("each size in shape", size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"shape must be a sequence of sizes, none negative, got {list(sizes)}")
    return sizes


def check_float_dtype(dtype: Any) -> torch.dtype:
    """The dtype as it is, if it is one of floats of 16 bits or more."""
    if dtype not in _FLOATS:
        raise TypeError(f"dtype must be floating point of 16 bits or more, got {dtype!r}")
    return cast(torch.dtype, dtype)


def check_same_device(name: str, value: Tensor, other: str, like: Tensor) -> None:
    """Raise unless a tensor is on the device of another."""
    if value.device != like.device:
        raise ValueError(f"{name} must be on {like.device}, as {other}, got {value.device}")


def check_broadcast(first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless two tensors have shapes that broadcast."""
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise ValueError(
            f"{first} and {second} must have shapes that broadcast, got {list(a.shape)} and "
            f"{list(b.shape)}"
        )


def check_device(device: Any) -> torch.device:
    """The device behind a name, if there is one here that has values."""
    try:
        found = torch.empty(0, device=device).device
    except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
    else:
        reason = "it has no values"
        if found.type != "meta":
            return found
    raise ValueError(f"device {device!r} cannot be used here: {reason}")


def check_memory(what: str, shape: Sequence[int], itemsize: int, device: torch.device) -> None:
    """Raise before a tensor is made that does not fit into the memory of its device.

    Args:
        what: the tensor, in the plural.
        shape: its shape.
        itemsize: bytes per number, temporary copies included.
        device: where it is to be.
    """
    if torch.compiler.is_compiling():  # sizes may not be known
        return
    # There may be something for each sample even where the batch is empty.
    needed = itemsize * math.prod(max(1, size) for size in shape)
    there = _memory_of(device.type)
    if needed > there:
        raise ValueError(
            f"{what} of shape {list(shape)} would take at least {needed / 1e9:,.0f} GB of memory, "
            f"but {device.type} has {there / 1e9:,.0f} GB: use fewer samples or a smaller batch"
        )


@lru_cache
def _memory_of(device: str) -> float:
    """All the memory of the first device of a type, in bytes; infinite if it is not reported."""
    if device == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    if device != "cpu" or not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def holds(condition: Callable[[], Tensor | bool]) -> bool:
    """Whether a condition on values holds; False where values cannot be looked at, which is while
    compiling and under ``vmap``.
    """
    if torch.compiler.is_compiling():
        return False
    try:
        return bool(condition())
    except RuntimeError as error:
        if "vmap" in str(error):
            return False
        raise
