"""Set up the device and the threads that a command computes with."""

__all__ = ["prepare"]

# torch dies if it cannot start its threads.
MOST_THREADS = 1024


def prepare(device: str, threads: int) -> None:
    """Use a number of threads; an error if that is impossible, or if there is no such device."""
    import torch

    from carms.core.checks.tensors import check_device

    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    if threads > MOST_THREADS:
        raise ValueError(f"threads must be at most {MOST_THREADS:,}, got {threads:,}")
    check_device(device)
    torch.set_num_threads(threads)
