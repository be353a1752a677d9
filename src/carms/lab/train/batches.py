"""Batches of a training set."""

import torch
from torch import Tensor

__all__ = ["Batches"]


class Batches:
    """Batches of a training set: each epoch has every image at most once, in an order of its own.

    Args:
        count: number of images.
        size: number of images in a batch, at most ``count``.
        seed: seed of the orders.
    """

    def __init__(self, count: int, size: int, seed: int) -> None:
        if size > count:
            raise ValueError(
                f"batch must be at most {count:,}, the number of images of the training set, "
                f"got {size:,}"
            )
        self._count, self._size, self._seed = count, size, seed
        self._epoch = -1

    def at(self, step: int) -> Tensor:
        """Positions of the images of a step."""
        epoch, place = divmod(step, self._count // self._size)
        if epoch != self._epoch:
            stream = torch.Generator().manual_seed((self._seed << 32) + epoch)
            self._order = torch.randperm(self._count, generator=stream)
            self._epoch = epoch
        return self._order[place * self._size : (place + 1) * self._size]
