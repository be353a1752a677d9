"""A memo of results that depend on a few hashable arguments alone."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import chain
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
        # A tensor without data, as of a FakeTensorMode, is of no use to later calls.
        if any(type(each) is not Tensor or each.is_meta for each in _tensors(found)):
            return found
        with lock:
            remembered[args] = found
            while len(remembered) > 1 and _too_much([*remembered.values()]):
                remembered.popitem(last=False)
        return found

    return wrapper


def _too_much(results: list[object]) -> bool:
    return len(results) > RESULTS or sum(each.nbytes for each in _tensors(results)) > BYTES


def _tensors(result: object) -> Iterator[Tensor]:
    """The tensors in a result, or in a list of results."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, tuple | list):
        yield from chain.from_iterable(map(_tensors, result))
