"""Check that rollouts with equal tokens met equal probabilities."""

import torch
from torch import Tensor

__all__ = ["check_repeatable"]

# Half precision moves a probability by some per cent, and a different state by far more.
TOLERANCE = 5e-2


def check_repeatable(tokens: Tensor, shares: Tensor) -> None:
    """Raise if rollouts of a prompt with the same tokens so far met different probabilities.

    They then own intervals of different partitions of [0, 1), for which the pair ratios are wrong.
    What counts is how far an interval moves: the difference of two probabilities of a token, times
    the probability of the tokens before it. Differences after many tokens pass.

    Args:
        tokens: ``[P, N, length]``.
        shares: ``[P, N, length]``, the probability of each token given those before it.
    """
    moved = _largest_move(tokens, shares)
    if moved > TOLERANCE:
        raise ValueError(
            "rollouts of one prompt that start with the same tokens must get the same logits, got "
            f"probabilities that differ by up to {moved:.2g}: is dropout off? Give the "
            "environments and tools of a prompt the same start and the same random numbers, or "
            "draw the rollouts with copula='independent'"
        )


def _largest_move(tokens: Tensor, shares: Tensor) -> float:
    """The largest difference of a token's share between two rollouts that have the same tokens up
    to it, times the probability of the tokens before it.
    """
    before = (shares.cumprod(-1) / shares).movedim(1, 0)
    tokens, shares = tokens.movedim(1, 0), shares.movedim(1, 0)
    largest = shares.new_zeros(())
    for n in range(len(tokens) - 1):
        shared = (tokens[n + 1 :] == tokens[n]).cumprod(-1)
        moved: Tensor = (shares[n + 1 :] - shares[n]).abs() * shared * before[n]
        largest = torch.maximum(largest, moved.amax())
    return float(largest)
