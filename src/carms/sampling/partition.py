"""The unit interval cut into one piece per category."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype

__all__ = ["Located", "Partition"]

# Up to here comparing with the end of every category is faster than a search.
_FEW = 16
# Up to here one cumulative sum over all categories is as fast as anything.
_SMALL = 256


@dataclass(frozen=True)
class Located:
    """Categories and the intervals they own, all ``[K, *batch]``: ends in double precision, lengths
    in that of the probabilities.
    """

    indices: Tensor
    left: Tensor
    width: Tensor


class Partition(ABC):
    """Category ``c`` owns an interval of length ``probs[c] / probs.sum()``, in the given order."""

    @staticmethod
    def of(probs: Tensor) -> "Partition":
        """From ``probs [*batch, C]``, non-negative, not necessarily normalised."""
        return _Few(probs) if probs.shape[-1] <= _FEW else _Many(probs)

    @abstractmethod
    def category(self, u: Tensor) -> Tensor:
        """In whose interval each ``u [K, *batch]`` lies; never one of width zero."""

    @abstractmethod
    def find(self, u: Tensor) -> Located:
        """The ``category`` and its interval."""

    @abstractmethod
    def interval(self, indices: Tensor) -> Located:
        """The intervals of given categories ``[K, *batch]``."""

    @abstractmethod
    def ends(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Left ends, lengths and right ends of the intervals of given categories ``[K, *batch]``,
        all in double precision; nothing lies beyond an interval that ends at 1.
        """


class _Few(Partition):
    """Categories lead, so that all that is done to one of them is done to contiguous numbers."""

    def __init__(self, probs: Tensor) -> None:
        self._probs = probs.movedim(-1, 0).contiguous()
        self._ends = self._probs.cumsum(0, dtype=precise_dtype(probs.device))

    def category(self, u: Tensor) -> Tensor:
        target = (u.contiguous() * self._ends[-1]).unsqueeze(1)
        # Bytes are added several times faster than long integers.
        return (target >= self._ends[:-1]).sum(1, dtype=torch.uint8).long()

    def find(self, u: Tensor) -> Located:
        return self.interval(self.category(u))

    def interval(self, indices: Tensor) -> Located:
        total = self._ends[-1]
        width = self._probs.gather(0, indices).to(total.dtype)
        left = self._ends.gather(0, indices).sub_(width).clamp_min_(0).div_(total)
        return Located(indices, left, width.div_(total).to(self._probs.dtype))

    def ends(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total, right = self._ends[-1], self._ends.gather(0, indices)
        width = self._probs.gather(0, indices).to(total.dtype)
        left = (right - width).clamp_min_(0)
        return left.div_(total), width.div_(total), right.div_(total)


class _Many(Partition):
    """Probabilities are added up in blocks, and only the blocks that a look-up hits are ever
    accumulated in double precision: the cost is one pass over them.
    """

    def __init__(self, probs: Tensor) -> None:
        self.probs = probs
        categories = probs.shape[-1]
        self._wide = precise_dtype(probs.device)
        if categories <= _SMALL:
            self._block, sums = 1, probs
        else:
            # About the square root: shorter ones take longer to add up, longer ones to look into.
            self._block = 1 << ((categories.bit_length() - 1) // 2)
            whole = categories - categories % self._block
            sums = probs[..., :whole].unflatten(-1, (-1, self._block)).sum(-1)
            if whole < categories:
                sums = torch.cat((sums, probs[..., whole:].sum(-1, keepdim=True)), -1)
        self._ends = sums.cumsum(-1, dtype=self._wide)
        self.total = self._ends[..., -1:]

    def category(self, u: Tensor) -> Tensor:
        if self._block > 1:
            return self.find(u).indices
        return self._search(u.movedim(0, -1) * self.total).movedim(-1, 0).contiguous()

    def find(self, u: Tensor) -> Located:
        target = u.movedim(0, -1) * self.total
        block = self._search(target)
        if self._block == 1:
            return self._of_last(block)
        start, size = self._start_and_size(block)
        inside = self._inside(block)
        # The last positive entry ends at `inside[..., -1:]`: stay below it, whatever the rounding.
        most = inside[..., -1:]
        goal = ((target - start) / size).unsqueeze(-1) * most
        offset = (inside <= torch.minimum(goal, most * (1 - torch.finfo(u.dtype).eps))).sum(-1)
        return self._located(block, offset, inside)

    def interval(self, indices: Tensor) -> Located:
        return self._of_last(indices.movedim(0, -1))

    def ends(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        indices = indices.movedim(0, -1)
        block = indices // self._block
        right = self._ends.gather(-1, block)
        width = self.probs.gather(-1, indices).to(self._wide)
        if self._block == 1:
            left = (right - width).clamp_min(0)
        else:
            inside = self._inside(block)
            most = inside[..., -1]
            end = inside.gather(-1, (indices % self._block).unsqueeze(-1)).squeeze(-1)
            start, size = self._start_and_size(block)
            scale = size / most
            left = start + (end - width).clamp_min(0) * scale
            width = width * scale
            # The last of a block ends where the block does, whatever the rounding.
            right = torch.where(end < most, start + end * scale, right)
        return _leading(left / self.total, width / self.total, right / self.total)

    def _of_last(self, indices: Tensor) -> Located:
        """The ``interval`` of ``indices [*batch, K]``."""
        if self._block > 1:
            block = indices // self._block
            return self._located(block, indices % self._block, self._inside(block))
        width = self.probs.gather(-1, indices).to(self._wide)
        left = (self._ends.gather(-1, indices) - width).clamp_min(0)
        width = (width / self.total).to(self.probs.dtype)
        return Located(*_leading(indices, left / self.total, width))

    def _search(self, target: Tensor) -> Tensor:
        """In which block ``target [*batch, K]`` is."""
        found = torch.searchsorted(self._ends, target.contiguous(), right=True)
        return found.clamp_max(self._ends.shape[-1] - 1)

    def _located(self, block: Tensor, offset: Tensor, inside: Tensor) -> Located:
        indices = block * self._block + offset
        start, size = self._start_and_size(block)
        # Block sums were rounded to the precision of `probs`; make them and their parts agree.
        scale = size / inside[..., -1]
        width = self.probs.gather(-1, indices).to(self._wide)
        end = inside.gather(-1, offset.unsqueeze(-1)).squeeze(-1)
        left = start + (end - width).clamp_min(0) * scale
        width = (width * (scale / self.total)).to(self.probs.dtype)
        return Located(*_leading(indices, left / self.total, width))

    def _start_and_size(self, block: Tensor) -> tuple[Tensor, Tensor]:
        end = self._ends.gather(-1, block)
        start = self._ends.gather(-1, (block - 1).clamp_min(0)).masked_fill(block == 0, 0)
        return start, end - start

    def _inside(self, block: Tensor) -> Tensor:
        """Cumulative sums within blocks, ``[*batch, K, block]``."""
        categories = self.probs.shape[-1]
        steps = torch.arange(self._block, device=block.device)
        members = block.unsqueeze(-1) * self._block + steps
        values = self.probs.gather(-1, members.clamp_max(categories - 1).flatten(-2))
        values = values.reshape(members.shape).to(self._wide)
        return values.masked_fill_(members >= categories, 0).cumsum(-1)


def _leading(*parts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors ``[K, *batch]`` from ``[*batch, K]`` each."""
    first, second, third = (part.movedim(-1, 0).contiguous() for part in parts)
    return first, second, third
