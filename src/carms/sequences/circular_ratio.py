"""Pair ratios of rollouts that the circular copula drew, in closed form."""

from collections.abc import Iterator

import torch
from torch import Tensor

from carms.copulas import Circular
from carms.core.pairs import pair_index
from carms.sampling.mixture import mixed_lift
from carms.sequences.gaps import first_difference, gaps_between
from carms.sequences.pieces import Pieces

__all__ = ["circular_ratio", "prefix_ratios"]


def circular_ratio(pieces: Pieces, epsilon: float, complete: bool = True) -> Tensor:
    """``[P, N, N]``: pair ratios by what the tokens own; 1 for equal rollouts if ``complete``."""
    count = pieces.tokens.shape[1]
    gaps, equal = gaps_between(pieces)
    width = _divisible(pieces.own.log().sum(-1).exp().T)
    first, second = pair_index(count, width.device)
    copula = Circular(count)
    lift = copula.lift_across(gaps, width[first], width[second])
    together = 1.0 if complete else copula.lift_within(width[first])
    return _ratio(torch.where(equal, together, lift), epsilon, count)


def prefix_ratios(pieces: Pieces, epsilon: float) -> Iterator[Tensor]:
    """``[P, N, N]`` for each token: the pair ratios of the rollouts up to it, 1 for equal ones.

    One pass from the first token to the last, in which gaps only grow.
    """
    count = pieces.tokens.shape[1]
    tokens = pieces.tokens.movedim(1, 0)
    fork = first_difference(tokens)
    first, second = (index.unsqueeze(-1) for index in pair_index(count, tokens.device))
    prompt = torch.arange(tokens.shape[1], device=tokens.device)
    at_fork = fork.clamp_max(tokens.shape[-1] - 1)
    turned = tokens[first, prompt, at_fork] > tokens[second, prompt, at_fork]
    left, right = torch.where(turned, second, first), torch.where(turned, first, second)
    below, upto, above, own = (field.permute(2, 1, 0) for field in pieces[1:])
    width = torch.ones_like(own[0])
    straight = around = torch.zeros_like(width[left, prompt])
    copula = Circular(count)
    for t in range(len(own)):
        under, over = width * below[t], width * above[t]
        facing = over[left, prompt] + under[right, prompt]
        between = (below[t][right, prompt] - upto[t][left, prompt]).clamp_min(0)
        opened = torch.where(fork == t, width[left, prompt] * between, facing * (fork < t))
        straight = straight + opened
        around = around + under[left, prompt] + over[right, prompt]
        width = width * own[t]
        widths = _divisible(width)
        gaps = torch.stack((straight, around))
        lift = copula.lift_across(gaps, widths[left, prompt], widths[right, prompt])
        yield _ratio(torch.where(fork > t, 1.0, lift), epsilon, count)


def _divisible(width: Tensor) -> Tensor:
    """Lengths underflow; a positive one that is as good as zero can be divided by."""
    return width.clamp_min(torch.finfo(width.dtype).tiny ** 0.5)


def _ratio(lift: Tensor, epsilon: float, count: int) -> Tensor:
    """``[P, N, N]``, from how much likelier than by chance a pair is, ``[pairs, P]``."""
    first, second = pair_index(count, lift.device)
    pairs = mixed_lift(lift, epsilon).reciprocal().T
    ratio = pairs.new_ones(len(pairs), count, count)
    ratio[:, first, second] = pairs
    ratio[:, second, first] = pairs
    return ratio
