"""All subsets, or all rankings, as the categories of one variable."""

import itertools
import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import whole_number
from carms.core.dtypes import precise_dtype
from carms.core.memo import constant
from carms.core.variables import Variables
from carms.estimators import Draw as CategoricalDraw
from carms.estimators.exact import MAX_CONFIGURATIONS
from carms.estimators.families.score_function import ScoreFunction as OverCategories
from carms.estimators.unord import Unord as UnordOfCategories
from carms.subsets.base import Draw, ScoreFunction
from carms.subsets.score import log_prob

__all__ = ["ByCategories", "Exact", "Unord", "count", "every", "log_probs"]


def count(items: int, size: int, ordered: bool) -> int:
    """Number of subsets, or rankings, of ``size`` of the items.

    Examples:
        >>> count(8, 3, ordered=False), count(8, 3, ordered=True)
        (56, 336)
    """
    return math.perm(items, size) if ordered else math.comb(items, size)


@constant
def every(items: int, size: int, ordered: bool, device: torch.device) -> Tensor:
    """All subsets, or all rankings, of ``size`` of the items, ``[M, k]``."""
    kind = itertools.permutations if ordered else itertools.combinations
    return torch.tensor(list(kind(range(items), size)), device=device)


def log_probs(logits: Tensor, size: int, ordered: bool) -> Tensor:
    """Log probabilities ``[M, *batch]`` of ``every`` subset or ranking under ``[*batch, n]``."""
    items = every(logits.shape[-1], size, ordered, logits.device)
    if ordered or 2 * size > logits.shape[-1]:
        each = items.view(len(items), *[1] * (logits.ndim - 1), size)
        return log_prob(logits, each.expand(-1, *logits.shape[:-1], -1), ordered)
    # P(S) is the sum, over the item drawn last, of P(S without it) times the probability of that
    # pick. As long as the number of subsets grows with their size, this is faster than integrals.
    found = torch.zeros_like(logits[..., 0]).unsqueeze(0)
    for members, parents, absent in _sizes(logits.shape[-1], size, logits.device):
        left = logits.movedim(-1, 0)[absent].logsumexp(1)
        before = found - left.masked_fill(left == -torch.inf, 0)
        found = (before[parents] + logits.movedim(-1, 0)[members]).logsumexp(1)
    return found


@constant
def _sizes(items: int, size: int, device: torch.device) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Tables for subsets of 1 to ``size`` items: their members ``[M, k]``, which smaller subset is
    left without each member ``[M, k]``, and which items are absent from each smaller subset.
    """
    found = []
    place: dict[tuple[int, ...], int] = {(): 0}
    for k in range(1, size + 1):
        subsets = list(itertools.combinations(range(items), k))
        parents = [[place[each[:i] + each[i + 1 :]] for i in range(k)] for each in subsets]
        absent = [[i for i in range(items) if i not in smaller] for smaller in place]
        tables = (torch.tensor(rows, device=device) for rows in (subsets, parents, absent))
        found.append((next(tables), next(tables), next(tables)))
        place = {each: number for number, each in enumerate(subsets)}
    return found


class Listed(ScoreFunction):
    """Estimators that know the probability of every subset or ranking."""

    def _list(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Items ``[M, k]`` of all there are, and their log probabilities ``[M, *batch]``."""
        total = count(logits.shape[-1], self.size, self.ordered)
        if total > MAX_CONFIGURATIONS:
            what = "rankings" if self.ordered else "subsets"
            there = f"{total:,}" if total < 1e12 else f"more than 10^{len(str(total)) - 1}"
            raise ValueError(
                f"{self} lists at most {MAX_CONFIGURATIONS:,} {what}, and there are {there} of "
                f"{self.size} of {logits.shape[-1]} items"
            )
        items = every(logits.shape[-1], self.size, self.ordered, logits.device)
        wide = logits.to(precise_dtype(logits.device))
        return items, log_probs(wide, self.size, self.ordered)


class Exact(Listed):
    """Evaluate ``f`` on all subsets, or rankings: no variance, and the yardstick of the others.

    There may be at most 65,536 of them. In the place of one of probability zero, ``f`` is given the
    likeliest, with weight zero.

    Args:
        size: number of items to choose, k.
        samples: accepted so that all estimators can be made alike; enumeration needs none.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    Examples:
        >>> Exact(size=2).expectation(lambda z: z[..., 0], torch.zeros(5))  # item 0 is among 2 of 5
        tensor(0.4000)
    """

    name = "exact"
    least_samples = 0

    def __init__(self, size: int, samples: int = 0, ordered: bool = False) -> None:
        if whole_number("samples", samples) < 0:
            raise ValueError(f"exact needs no samples, got {samples=}")
        super().__init__(size, 0, ordered)

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        items, each = self._list(logits)
        everyone = torch.arange(len(items), device=items.device)
        everyone = everyone.view(-1, *[1] * (logits.ndim - 1)).expand(each.shape)
        possible = torch.where(each > -torch.inf, everyone, each.argmax(0))
        return items[possible], each.exp()

    def weights(self, draw: Draw, fz: Tensor) -> Tensor:
        probs: Tensor = draw.memory
        return probs * fz

    def value(self, draw: Draw, fz: Tensor) -> Tensor:
        probs: Tensor = draw.memory
        return (probs.to(fz.dtype) * fz).sum(0)


class Category(NamedTuple):
    """What a draw of ``ByCategories`` remembers: the draw of the category, and its estimator."""

    estimator: OverCategories
    draw: CategoricalDraw


class ByCategories(Listed):
    """Estimators of one categorical variable, whose categories are the subsets or rankings."""

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Any]:
        items, each = self._list(logits)
        variable = Variables(each.movedim(0, -1).unsqueeze(-2))
        estimator = self._over_categories(len(items))
        draw = estimator.draw_unchecked(variable, variable.logits.softmax(-1), generator)
        return items[draw.drawn.squeeze(-1)], Category(estimator, draw)

    @abstractmethod
    def _over_categories(self, total: int) -> OverCategories:
        """The estimator for a variable of ``total`` categories."""

    def weights(self, draw: Draw, fz: Tensor) -> Tensor:
        category: Category = draw.memory
        return category.estimator.weights(category.draw, fz.unsqueeze(-1)).squeeze(-1)

    def value(self, draw: Draw, fz: Tensor) -> Tensor:
        category: Category = draw.memory
        return category.estimator.value(category.draw, fz)


class Unord(ByCategories):
    """N different subsets, or rankings, weighted by how surely each was among them.

    Unbiased, for any ``f``; N evaluations, all distinct if there are N of them. At most
    65,536 subsets or rankings, whose probabilities are all computed.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 2.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    References:
        Kool, van Hoof and Welling (2020) [kool2020]

    Examples:
        >>> draw = Unord(size=2, samples=6).sample(torch.zeros(4))
        >>> len(draw.z.unique(dim=0))  # all six pairs of four items
        6
    """

    name = "unord"

    def _over_categories(self, total: int) -> UnordOfCategories:
        return UnordOfCategories(self.samples)
