"""Set up the device and the threads that a command computes with."""

__all__ = ["prepare"]


def prepare(device: str, threads: int) -> None:
    """Use a number of threads; an error if it is below one, or if there is no such device."""
    import torch

    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used here: {why}") from error
    torch.set_num_threads(threads)
