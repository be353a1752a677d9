"""Lists of all subsets, or all rankings, and their probabilities."""

import itertools
import math

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype
from carms.core.memo import constant
from carms.estimators.exact import MAX_CONFIGURATIONS
from carms.subsets.base import SubsetEstimator
from carms.subsets.score import log_prob

__all__ = ["count", "every", "log_probs", "with_log_probs"]


def with_log_probs(maker: SubsetEstimator, logits: Tensor) -> tuple[Tensor, Tensor]:
    """All subsets or rankings ``[M, k]`` of an estimator, and their log probabilities
    ``[M, *batch]`` in double precision. There may be at most 65,536.
    """
    items, size, ordered = logits.shape[-1], maker.size, maker.ordered
    total = count(items, size, ordered)
    if total > MAX_CONFIGURATIONS:
        what = "rankings" if ordered else "subsets"
        number = f"{total:,}" if total < 1e12 else f"more than 10^{len(str(total)) - 1}"
        raise ValueError(
            f"{maker} lists at most {MAX_CONFIGURATIONS:,} {what}, and there are {number} of "
            f"{size} of {items} items"
        )
    wide = logits.to(precise_dtype(logits.device))
    return every(items, size, ordered, logits.device), log_probs(wide, size, ordered)


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
    for members, parents, absent in _tables_by_size(logits.shape[-1], size, logits.device):
        left = logits.movedim(-1, 0)[absent].logsumexp(1)
        before = found - left.masked_fill(left == -torch.inf, 0)
        found = (before[parents] + logits.movedim(-1, 0)[members]).logsumexp(1)
    return found


@constant
def _tables_by_size(
    items: int, size: int, device: torch.device
) -> list[tuple[Tensor, Tensor, Tensor]]:
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
