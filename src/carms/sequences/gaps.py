"""Gaps between two rollouts on the ring, where float64 positions cannot tell them apart.

Up to their first difference two rollouts share an interval, of which they take different pieces.
Between them lie the rest of the one piece, the pieces in between and the rest of the other:
positive numbers that are added, so that no digits are lost however close the two are.
"""

import torch
from torch import Tensor

from carms.core.pairs import pair_index
from carms.sequences.pieces import Pieces

__all__ = ["first_difference", "gaps_between"]


def gaps_between(pieces: Pieces) -> tuple[Tensor, Tensor]:
    """Gaps between the intervals of two rollouts, and which rollouts are equal.

    The gaps are ``[2, pairs, P]``, straight and around the ring. The second tensor is
    ``[pairs, P]`` and True for equal rollouts, whose gaps mean nothing.
    """
    tokens = pieces.tokens.movedim(1, 0)
    fork = first_difference(tokens)
    equal = fork == tokens.shape[-1]
    fork = fork.clamp_max(tokens.shape[-1] - 1)
    first, second = (index.unsqueeze(-1) for index in pair_index(len(tokens), tokens.device))
    prompt = torch.arange(tokens.shape[1], device=tokens.device)

    def at_fork(values: Tensor) -> tuple[Tensor, Tensor]:
        values = values.movedim(1, 0)
        return values[first, prompt, fork], values[second, prompt, fork]

    token_a, token_b = at_fork(pieces.tokens)
    low_a, low_b = at_fork(pieces.below)
    high_a, high_b = at_fork(pieces.upto)
    share_a, share_b = at_fork(pieces.own)
    log_probs = pieces.own.log()
    shared, _ = at_fork((log_probs.cumsum(-1) - log_probs).exp())
    # 0 where the first of the two is the lower one and turns its upper side to the other.
    turned = (token_a > token_b).long()
    sides = _sides(pieces)
    rest_a = sides[1 - turned, fork + 1, first, prompt] * share_a
    rest_b = sides[turned, fork + 1, second, prompt] * share_b
    between = torch.where(turned == 0, low_b - high_a, low_a - high_b).clamp_min(0)
    around = sides[turned, 0, first, prompt] + sides[1 - turned, 0, second, prompt]
    return torch.stack((shared * (rest_a + between + rest_b), around)), equal


def first_difference(tokens: Tensor) -> Tensor:
    """``[pairs, P]``: the first place where rollouts ``[N, P, length]`` differ, else ``length``."""
    found = []
    for n in range(len(tokens) - 1):
        differs = tokens[n + 1 :] != tokens[n]
        place = differs.to(torch.uint8).argmax(-1)
        found.append(torch.where(differs.any(-1), place, tokens.shape[-1]))
    return torch.cat(found)


def _sides(pieces: Pieces) -> Tensor:
    """``[2, length + 1, N, P]``: the shares of the interval of its first ``t`` tokens that lie
    below and above a rollout's own interval.
    """
    beside = torch.stack((pieces.below, pieces.above)).permute(3, 0, 2, 1)
    sides = [torch.zeros_like(beside[0])]
    for here, share in zip(beside.flip(0), pieces.own.permute(2, 1, 0).flip(0), strict=True):
        sides.append(torch.addcmul(here, share, sides[-1]))
    return torch.stack(sides[::-1], 1)
