"""Advantages of correlated rollouts, corrected pair by pair."""

import torch
from torch import Tensor

from carms.copulas import Circular
from carms.pairs import pair_index
from carms.sequences.gaps import gaps_between
from carms.sequences.pieces import Pieces
from carms.sequences.record import Rollouts

__all__ = ["advantages", "circular_ratio", "pair_ratio", "surrogate"]


def pair_ratio(rollouts: Rollouts) -> Tensor:
    """``[P, N, N]``: how much rarer than by chance two rollouts are drawn together.

    ``q(a) q(b) / P(a, b)``, in closed form from the two intervals and what lies between them. Equal
    rollouts get 1: their scores are equal, so that a pair of them has no effect on a gradient.
    """
    if rollouts.copula == "independent":
        return torch.ones_like(rollouts.lower[..., :1]).repeat(1, 1, rollouts.samples)
    return circular_ratio(rollouts.pieces, rollouts.epsilon)


def circular_ratio(pieces: Pieces, epsilon: float) -> Tensor:
    """``[P, N, N]`` ratios of rollouts drawn by the circular copula, by what their tokens own."""
    count = pieces.tokens.shape[1]
    first, second = pair_index(count, pieces.own.device)
    gaps, equal = gaps_between(pieces)
    # Lengths underflow; a positive one that is as good as zero can be divided by.
    shortest = torch.finfo(pieces.own.dtype).tiny ** 0.5
    width = pieces.own.log().sum(-1).exp().clamp_min(shortest).T
    lift = Circular(count).lift_across(gaps, width[first], width[second])
    mixed = (1 - epsilon) * lift + epsilon
    pairs = mixed.reciprocal().masked_fill(equal, 1).T
    ratio = torch.ones_like(pieces.own[..., :1]).repeat(1, 1, count)
    ratio[:, first, second] = pairs
    ratio[:, second, first] = pairs
    return ratio


def advantages(rewards: Tensor, rollouts: Rollouts | Tensor) -> Tensor:
    """``[P, N]``: ``1/(N-1) sum_m (r_n - r_m) R_nm``, in the place of leave-one-out advantages.

    The gradient ``1/N sum_n A_n d log q(rollout n)`` is unbiased. For independent rollouts every
    ratio ``R`` is 1, and these are the advantages of RLOO.

    Args:
        rewards: ``[P, N]``, of the rollouts.
        rollouts: from [`carms.sequences.rollouts`][]; or their pair ratios ``[P, N, N]``, as
            [`carms.sequences.ratios`][] computes them of finished samples.

    Examples:
        >>> from carms.sequences import rollouts
        >>> step = lambda tokens, cache: (torch.zeros(len(tokens), 3), None)
        >>> group = rollouts(step, torch.zeros(1, 0, dtype=torch.long), 3, 5, copula="independent")
        >>> advantages(torch.tensor([[1.0, 0.0, 0.0]]), group)
        tensor([[ 1.0000, -0.5000, -0.5000]])
    """
    ratio = rollouts if isinstance(rollouts, Tensor) else pair_ratio(rollouts)
    _check_rewards(rewards, ratio)
    values = rewards.detach().to(ratio.dtype)
    differences = values.unsqueeze(-1) - values.unsqueeze(-2)
    return ((differences * ratio).sum(-1) / (ratio.shape[-1] - 1)).to(rewards.dtype)


def surrogate(rewards: Tensor, log_probs: Tensor, rollouts: Rollouts | Tensor) -> Tensor:
    """``[P]``: the mean reward, whose backward pass estimates the gradient of the expected one.

    It puts ``1/N sum_n A_n d log q(rollout n)`` on the model by way of ``log_probs``, and the
    ordinary gradient on whatever the rewards themselves were made of.

    Args:
        rewards: ``[P, N]``, with their graph if they have one.
        log_probs: ``[P, N]``, log probability of each rollout under the model, with its graph.
        rollouts: from [`carms.sequences.rollouts`][], or their pair ratios.
    """
    weights = advantages(rewards, rollouts)
    if log_probs.shape != rewards.shape:
        raise ValueError(
            "log_probs must be one number per rollout, [P, N] = "
            f"{list(rewards.shape)}, got shape {list(log_probs.shape)}; of those of its tokens, "
            "take the sum over the mask of the rollouts"
        )
    term = (weights * log_probs).mean(-1)
    return rewards.mean(-1) + (term - term.detach()).to(rewards.dtype)


def _check_rewards(rewards: object, ratio: Tensor) -> None:
    shape = list(ratio.shape[:2])
    if not isinstance(rewards, Tensor) or not rewards.is_floating_point():
        kind = rewards.dtype if isinstance(rewards, Tensor) else type(rewards).__name__
        raise TypeError(f"rewards must be a floating point tensor [P, N] = {shape}, got {kind}")
    if list(rewards.shape) != shape:
        raise ValueError(
            f"rewards must be one per rollout, [P, N] = {shape}, got shape {list(rewards.shape)}"
        )
    if not rewards.isfinite().all():
        bad = int((~rewards.isfinite()).sum())
        raise ValueError(f"{bad} of {rewards.numel()} rewards are NaN or infinite")
