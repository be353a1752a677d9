"""Where a command computes."""

import torch

__all__ = ["prepare"]


def prepare(device: str, threads: int) -> None:
    """Use so many threads; an error if there are none, or no such device."""
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used here: {why}") from error
    torch.set_num_threads(threads)
