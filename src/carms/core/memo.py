"""A memo of tensors that depend on a few integers alone."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

import torch

__all__ = ["constant"]

A = TypeVarTuple("A")
T = TypeVar("T")


def constant(function: Callable[[*A], T]) -> Callable[[*A], T]:
    """Remember the results of a function of hashable arguments; the compiler traces it instead."""

    @lru_cache(maxsize=64)
    def remembered(*args: *A) -> T:
        # Made in inference mode, tensors could not take part in autograd later; made inside a
        # transform of torch.func, they would be tensors of that transform.
        with torch._C._DisableFuncTorch(), torch.inference_mode(False), torch.no_grad():
            return function(*args)

    @wraps(function)
    def wrapper(*args: *A) -> T:
        return function(*args) if torch.compiler.is_compiling() else remembered(*args)

    return wrapper
