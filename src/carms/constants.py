"""Tensors that depend on a few integers alone are made once."""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["constant"]

P = ParamSpec("P")
T = TypeVar("T")


def constant(function: Callable[P, T]) -> Callable[P, T]:
    """Remember the results of a function of hashable arguments; the compiler traces it instead."""

    @cache
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        # Made in inference mode, tensors could not take part in autograd later.
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        return remembered(*args, **kwargs)

    return wrapper
