"""Check that rollouts with equal tokens met equal probabilities."""

import torch
from torch import Tensor

from carms.sequences.record import Rollouts

__all__ = ["check_repeatable"]

# Rounding moves an interval by far less, and a different state by far more.
_TOLERANCE = 1e-2


def check_repeatable(rollouts: Rollouts) -> None:
    """Raise if rollouts of a prompt with the same tokens so far met different probabilities.

    They then own intervals of different partitions of [0, 1), for which the pair ratios are wrong.
    """
    moved = _largest_move(rollouts)
    if moved > _TOLERANCE:
        raise ValueError(
            "rollouts of one prompt that start with the same tokens must get the same logits, got "
            f"probabilities that differ by up to {moved:.2g}: give the environments of a prompt "
            "the same start and the same random numbers, or use copula='independent'"
        )


def _largest_move(rollouts: Rollouts) -> float:
    """The largest difference of a token's share between two rollouts that have the same tokens up
    to it, times the probability of the tokens before it.
    """
    tokens, shares = rollouts.tokens, rollouts.shares
    before = (shares.cumprod(-1) / shares).movedim(1, 0)
    tokens, shares = tokens.movedim(1, 0), shares.movedim(1, 0)
    largest = shares.new_zeros(())
    for n in range(len(tokens) - 1):
        shared = (tokens[n + 1 :] == tokens[n]).cumprod(-1)
        moved: Tensor = (shares[n + 1 :] - shares[n]).abs() * shared * before[n]
        largest = torch.maximum(largest, moved.amax())
    return float(largest)
