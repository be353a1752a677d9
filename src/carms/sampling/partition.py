"""The unit interval cut into one piece per category."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype

__all__ = ["Blocked", "Counted", "Located", "Partition", "Searched"]

# Up to this number of categories, comparing with the end of each is faster than a search.
_FEW = 16
# Up to this number, one cumulative sum over all categories is as fast as anything.
_SMALL = 256


class Located(ABC):
    """Categories, and where their intervals are.

    Attributes:
        indices: ``[K, *batch]``, the categories.
    """

    indices: Tensor

    @abstractmethod
    def interval(self) -> tuple[Tensor, Tensor]:
        """Left ends ``[K, *batch]`` of the intervals in double precision, and their lengths in
        the precision of the probabilities.
        """

    @abstractmethod
    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        """Left ends, lengths and right ends ``[K, *batch]`` of the intervals, all in double
        precision; the right end is 1 where nothing lies beyond.
        """


class Partition(ABC):
    """Category ``c`` owns an interval of length ``probs[c] / probs.sum()``, in the given order."""

    @staticmethod
    def of(probs: Tensor) -> "Partition":
        """The fastest partition for ``probs [*batch, C]``, non-negative, not necessarily
        normalised.
        """
        if probs.shape[-1] <= _FEW:
            return Counted(probs)
        return Searched(probs) if probs.shape[-1] <= _SMALL else Blocked(probs)

    def category(self, u: Tensor) -> Tensor:
        """The categories in whose intervals ``u [K, *batch]`` lie."""
        return self.find(u).indices

    @abstractmethod
    def find(self, u: Tensor) -> Located:
        """Locate the category whose interval contains each ``u [K, *batch]``. A category of
        probability zero is never found.
        """

    @abstractmethod
    def at(self, indices: Tensor) -> Located:
        """Locate given categories ``[K, *batch]``."""


class _BySums(Located):
    """Intervals from the sum of the probabilities up to each category."""

    dtype: torch.dtype

    @abstractmethod
    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Lengths and right ends ``[K, *batch]``, new tensors, and the sum ``[*batch]`` of all
        probabilities, in double precision.
        """

    def interval(self) -> tuple[Tensor, Tensor]:
        width, right, total = self._sums()
        left = right.sub_(width).clamp_min_(0).div_(total)
        return left, width.div_(total).to(self.dtype)

    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        width, right, total = self._sums()
        left = (right - width).clamp_min_(0)
        return left.div_(total), width.div_(total), right.div_(total)


class Counted(Partition):
    """For a few categories: count the cumulative sums below a point.

    A count is a byte, so that there may be 256 categories at most. Categories are the first
    dimension, so that the numbers of each one are contiguous.
    """

    def __init__(self, probs: Tensor) -> None:
        self.probs = probs.movedim(-1, 0).contiguous()
        self.cumulative = self.probs.cumsum(0, dtype=precise_dtype(probs.device))

    def find(self, u: Tensor) -> Located:
        target = (u.contiguous() * self.cumulative[-1]).unsqueeze(1)
        # Bytes are added several times faster than long integers.
        return self.at((target >= self.cumulative[:-1]).sum(1, dtype=torch.uint8).long())

    def at(self, indices: Tensor) -> Located:
        return _InCounted(self, indices)


class _InCounted(_BySums):
    def __init__(self, partition: Counted, indices: Tensor) -> None:
        self._partition, self.indices, self.dtype = partition, indices, partition.probs.dtype

    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        sums = self._partition.cumulative
        width = self._partition.probs.gather(0, self.indices).to(sums.dtype)
        return width, sums.gather(0, self.indices), sums[-1]


class Searched(Partition):
    """For some hundred categories: a binary search among their ends."""

    def __init__(self, probs: Tensor) -> None:
        self.probs = probs
        self.cumulative = probs.cumsum(-1, dtype=precise_dtype(probs.device))

    def find(self, u: Tensor) -> Located:
        return _InSearched(
            self, _search(self.cumulative, u.movedim(0, -1) * self.cumulative[..., -1:])
        )

    def at(self, indices: Tensor) -> Located:
        return _InSearched(self, indices.movedim(0, -1))


class _InSearched(_BySums):
    def __init__(self, partition: Searched, indices: Tensor) -> None:
        self._partition, self._batch_first, self.dtype = partition, indices, partition.probs.dtype
        self.indices = _samples_first(indices)

    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        sums = self._partition.cumulative
        width = self._partition.probs.gather(-1, self._batch_first).to(sums.dtype)
        right = sums.gather(-1, self._batch_first)
        return _samples_first(width), _samples_first(right), sums[..., -1]


class Blocked(Partition):
    """For many categories: a search among blocks of them, then inside a block.

    Probabilities are added up in blocks, and only the blocks that a look-up hits are ever
    accumulated in double precision: the cost is about one pass over the probabilities.
    """

    def __init__(self, probs: Tensor) -> None:
        categories = probs.shape[-1]
        # About the square root of C: summing is slower with smaller blocks, searching with larger.
        self.size = 1 << ((categories.bit_length() - 1) // 2)
        whole = categories - categories % self.size
        sums = probs[..., :whole].unflatten(-1, (-1, self.size)).sum(-1)
        if whole < categories:
            sums = torch.cat((sums, probs[..., whole:].sum(-1, keepdim=True)), -1)
        self.probs = probs
        self.cumulative = sums.cumsum(-1, dtype=precise_dtype(probs.device))
        self.total = self.cumulative[..., -1:]

    def find(self, u: Tensor) -> Located:
        target = u.movedim(0, -1) * self.total
        blocks = _Blocks(self, _search(self.cumulative, target))
        # Below the sum of the block, so that rounding never selects an entry of probability zero.
        block_sum = blocks.inside[..., -1:]
        target_inside = ((target - blocks.start) / blocks.length).unsqueeze(-1) * block_sum
        below = blocks.inside <= torch.minimum(
            target_inside, block_sum * (1 - torch.finfo(u.dtype).eps)
        )
        return _InBlocks(blocks, below.sum(-1))

    def at(self, indices: Tensor) -> Located:
        indices = indices.movedim(0, -1)
        return _InBlocks(_Blocks(self, indices // self.size), indices % self.size)


class _Blocks:
    """Blocks ``number [*batch, K]`` of a partition: where they are and what is inside."""

    def __init__(self, partition: Blocked, number: Tensor) -> None:
        self.partition, self.number = partition, number
        self.end = partition.cumulative.gather(-1, number)
        before = partition.cumulative.gather(-1, (number - 1).clamp_min(0))
        self.start = before.masked_fill(number == 0, 0)
        self.length = self.end - self.start
        self.inside = self._inside()

    def _inside(self) -> Tensor:
        """Cumulative sums within blocks, ``[*batch, K, size]``."""
        probs, size = self.partition.probs, self.partition.size
        categories, steps = probs.shape[-1], torch.arange(size, device=probs.device)
        members = self.number.unsqueeze(-1) * size + steps
        values = probs.gather(-1, members.clamp_max(categories - 1).flatten(-2))
        values = values.reshape(members.shape).to(self.end.dtype)
        return values.masked_fill_(members >= categories, 0).cumsum(-1)


class _InBlocks(Located):
    """Categories by their blocks and their places ``offset [*batch, K]`` inside."""

    def __init__(self, blocks: _Blocks, offset: Tensor) -> None:
        self._blocks, self._offset = blocks, offset
        self._batch_first = blocks.number * blocks.partition.size + offset
        self.indices = _samples_first(self._batch_first)

    def interval(self) -> tuple[Tensor, Tensor]:
        total = self._blocks.partition.total
        left, _, prob, scale = self._block_parts()
        width = (prob * (scale / total)).to(self._blocks.partition.probs.dtype)
        return _samples_first(left / total), _samples_first(width)

    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        total = self._blocks.partition.total
        left, end, prob, scale = self._block_parts()
        # The last of a block ends where the block does, whatever the rounding.
        before = end < self._blocks.inside[..., -1]
        right = torch.where(before, self._blocks.start + end * scale, self._blocks.end)
        return (
            _samples_first(left / total),
            _samples_first(prob * scale / total),
            _samples_first(right / total),
        )

    def _block_parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Left ends in the partition, right ends in the block, probabilities, and the scale of
        the block, all ``[*batch, K]``.
        """
        blocks = self._blocks
        # Block sums were rounded to the precision of `probs`; make them and their parts agree.
        scale = blocks.length / blocks.inside[..., -1]
        prob = blocks.partition.probs.gather(-1, self._batch_first).to(blocks.end.dtype)
        end = blocks.inside.gather(-1, self._offset.unsqueeze(-1)).squeeze(-1)
        left = blocks.start + (end - prob).clamp_min(0) * scale
        return left, end, prob, scale


def _search(ends: Tensor, target: Tensor) -> Tensor:
    """The first of ``ends [*batch, M]`` above each ``target [*batch, K]``, the last one if none."""
    found = torch.searchsorted(ends, target.contiguous(), right=True)
    return found.clamp_max(ends.shape[-1] - 1)


def _samples_first(values: Tensor) -> Tensor:
    """``[K, *batch]`` from ``[*batch, K]``."""
    return values.movedim(-1, 0).contiguous()
