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
    """``[P, N, N]``: pair ratios from the intervals of the tokens.

    Equal rollouts get 1 if they are ``complete``, else the ratio within one interval.
    """
    count = pieces.tokens.shape[1]
    gaps, equal = gaps_between(pieces)
    width = _divisible(pieces.own.log().sum(-1).exp().T)
    first, second = pair_index(count, width.device)
    copula = Circular(count)
    lift = copula.lift_across(gaps, width[first], width[second])
    lift_if_equal = 1.0 if complete else copula.lift_within(width[first])
    return _ratio(torch.where(equal, lift_if_equal, lift), epsilon, count)


def prefix_ratios(pieces: Pieces, epsilon: float) -> Iterator[Tensor]:
    """``[P, N, N]`` for each token: the pair ratios of the rollouts up to it, 1 for equal ones.

    One pass from the first token to the last, in which gaps only grow.
    """
    count = pieces.tokens.shape[1]
    tokens = pieces.tokens.movedim(1, 0)
    first_different = first_difference(tokens)
    first, second = (index.unsqueeze(-1) for index in pair_index(count, tokens.device))
    prompt = torch.arange(tokens.shape[1], device=tokens.device)
    at_fork = first_different.clamp_max(tokens.shape[-1] - 1)
    swapped = tokens[first, prompt, at_fork] > tokens[second, prompt, at_fork]
    # The two rollouts of a pair in the order of their intervals on [0, 1].
    left, right = torch.where(swapped, second, first), torch.where(swapped, first, second)
    below, upto, above, own = (field.permute(2, 1, 0) for field in pieces[1:])
    width = torch.ones_like(own[0])
    inner_gap = outer_gap = torch.zeros_like(width[left, prompt])
    copula = Circular(count)
    for t in range(len(own)):
        under, over = width * below[t], width * above[t]
        after_fork = over[left, prompt] + under[right, prompt]
        between = (below[t][right, prompt] - upto[t][left, prompt]).clamp_min(0)
        inner_growth = torch.where(
            first_different == t, width[left, prompt] * between, after_fork * (first_different < t)
        )
        inner_gap = inner_gap + inner_growth
        outer_gap = outer_gap + under[left, prompt] + over[right, prompt]
        width = width * own[t]
        widths = _divisible(width)
        gaps = torch.stack((inner_gap, outer_gap))
        lift = copula.lift_across(gaps, widths[left, prompt], widths[right, prompt])
        yield _ratio(torch.where(first_different > t, 1.0, lift), epsilon, count)


def _divisible(width: Tensor) -> Tensor:
    """Clamp lengths that underflow to a tiny positive number, so that dividing by them is safe."""
    return width.clamp_min(torch.finfo(width.dtype).tiny ** 0.5)


def _ratio(lift: Tensor, epsilon: float, count: int) -> Tensor:
    """Pair ratios ``[P, N, N]`` from lifts ``[pairs, P]``: mixed with epsilon and inverted."""
    first, second = pair_index(count, lift.device)
    pairs = mixed_lift(lift, epsilon).reciprocal().T
    ratio = pairs.new_ones(len(pairs), count, count)
    ratio[:, first, second] = pairs
    ratio[:, second, first] = pairs
    return ratio
