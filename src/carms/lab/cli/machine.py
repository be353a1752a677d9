"""Set up the device and the threads that a command computes with."""

__all__ = ["prepare"]


def prepare(device: str, threads: int) -> None:
    """Use a number of threads; an error if it is below one, or if there is no such device."""
    import torch

    from carms.core.checks.tensors import check_device

    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    check_device(device)
    torch.set_num_threads(threads)
