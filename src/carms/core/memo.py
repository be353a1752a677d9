"""A memo of tensors that depend on a few integers alone."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import TypeVar, TypeVarTuple

import torch
from torch import Tensor

__all__ = ["constant"]

# The largest memory of one function, in results and in bytes; the last result is always kept.
RESULTS, BYTES = 64, 1 << 27

A = TypeVarTuple("A")
T = TypeVar("T")


def constant(function: Callable[[*A], T]) -> Callable[[*A], T]:
    """Remember the results of a function of hashable arguments; the compiler traces it instead."""
    remembered: OrderedDict[tuple[*A], T] = OrderedDict()
    lock = Lock()

    @wraps(function)
    def wrapper(*args: *A) -> T:
        if torch.compiler.is_compiling():
            return function(*args)
        with lock:
            if args in remembered:
                remembered.move_to_end(args)
                return remembered[args]
        # Made in inference mode, tensors could not take part in autograd later; made inside a
        # transform of torch.func, they would be tensors of that transform.
        with torch._C._DisableFuncTorch(), torch.inference_mode(False), torch.no_grad():
            found = function(*args)
        with lock:
            remembered[args] = found
            while len(remembered) > 1 and _too_much([*remembered.values()]):
                remembered.popitem(last=False)
        return found

    return wrapper


def _too_much(results: list[object]) -> bool:
    return len(results) > RESULTS or sum(map(_bytes, results)) > BYTES


def _bytes(result: object) -> int:
    """Memory of the tensors in a result."""
    if isinstance(result, Tensor):
        return result.nbytes
    return sum(map(_bytes, result)) if isinstance(result, tuple | list) else 0
