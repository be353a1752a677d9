"""The pieces of the ring that the tokens of rollouts own."""

from typing import NamedTuple

from torch import Tensor

__all__ = ["Pieces"]


class Pieces(NamedTuple):
    """For each token of rollouts, which part of the interval of the tokens before it is its own.

    All are ``[P, N, length]``. The shares are redundant, but none can be computed from the others
    without losing digits where they are small.

    Attributes:
        tokens: the rollouts; all equal from the end of a rollout on.
        below: the share of the tokens with smaller numbers.
        upto: the share of these and the token itself.
        above: the share of the tokens with larger numbers.
        own: the token's own share, its probability.
    """

    tokens: Tensor
    below: Tensor
    upto: Tensor
    above: Tensor
    own: Tensor
