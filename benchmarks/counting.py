"""Count the operations of torch."""

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Counter(TorchDispatchMode):
    """Counts operations, and those among them that reach a kernel: all but views."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.launches = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        del types
        self.operations += 1
        self.launches += not func.is_view
        return func(*args, **(kwargs or {}))


def count(run: Callable[[], object]) -> Counter:
    """Call a function, and return what was counted."""
    with Counter() as counter:
        run()
    return counter
