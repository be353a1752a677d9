"""Advantages of correlated rollouts, corrected pair by pair."""

import torch
from torch import Tensor

from carms.copulas import Circular
from carms.core.checks.tensors import check_floats, check_place
from carms.core.pairs import pair_index
from carms.core.surrogate import with_gradient_of
from carms.sampling.mixture import mixed_lift
from carms.sequences.gaps import gaps_between
from carms.sequences.pieces import Pieces
from carms.sequences.record import Rollouts

__all__ = ["advantages", "circular_ratio", "pair_ratio", "surrogate"]


def pair_ratio(rollouts: Rollouts) -> Tensor:
    """``[P, N, N]``: how much rarer than by chance two rollouts are drawn together.

    ``q(a) q(b) / P(a, b)``, in closed form from the two intervals and what lies between them. Equal
    rollouts that are complete get 1: their scores are equal, so that a pair of them has no effect
    on a gradient.
    """
    if not isinstance(rollouts, Rollouts):
        raise TypeError(
            f"rollouts must come from carms.sequences.rollouts, got {type(rollouts).__name__}"
        )
    if rollouts.copula == "independent":
        return torch.ones_like(rollouts.lower[..., :1]).repeat(1, 1, rollouts.samples)
    return circular_ratio(rollouts.pieces, rollouts.epsilon, rollouts.complete)


def circular_ratio(pieces: Pieces, epsilon: float, complete: bool = True) -> Tensor:
    """``[P, N, N]`` ratios of rollouts drawn by the circular copula, by what their tokens own; of
    equal ones 1 if they are ``complete``.
    """
    count = pieces.tokens.shape[1]
    first, second = pair_index(count, pieces.own.device)
    gaps, equal = gaps_between(pieces)
    # Lengths underflow; a positive one that is as good as zero can be divided by.
    shortest = torch.finfo(pieces.own.dtype).tiny ** 0.5
    width = pieces.own.log().sum(-1).exp().clamp_min(shortest).T
    copula = Circular(count)
    lift = copula.lift_across(gaps, width[first], width[second])
    together = 1.0 if complete else copula.lift_within(width[first])
    lift = torch.where(equal, together, lift)
    pairs = mixed_lift(lift, epsilon).reciprocal().T
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
    ratio = _ratio_of(rollouts)
    _check_per_rollout("rewards", rewards, ratio)
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
    ratio = _ratio_of(rollouts)
    weights = advantages(rewards, ratio)
    hint = "; of those of its tokens, take the sum over the mask of the rollouts"
    _check_per_rollout("log_probs", log_probs, ratio, hint)
    term = (weights * log_probs).mean(-1)
    return with_gradient_of(rewards.mean(-1), term)


def _ratio_of(rollouts: Rollouts | Tensor) -> Tensor:
    """The pair ratios ``[P, N, N]``, of which a tensor must be one."""
    if not isinstance(rollouts, Tensor):
        return pair_ratio(rollouts)
    check_floats("pair ratios", rollouts)
    shape = list(rollouts.shape)
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 2:
        raise ValueError(f"pair ratios must be [P, N, N] with N at least 2, got shape {shape}")
    return rollouts


def _check_per_rollout(name: str, given: object, ratio: Tensor, hint: str = "") -> None:
    """Raise unless there is a finite number for each rollout."""
    shape = list(ratio.shape[:2])
    if not isinstance(given, Tensor):
        raise TypeError(f"{name} must be a tensor [P, N] = {shape}, got {type(given).__name__}")
    check_floats(name, given)
    if list(given.shape) != shape:
        raise ValueError(
            f"{name} must be one number per rollout, [P, N] = {shape}, got shape "
            f"{list(given.shape)}{hint}"
        )
    check_place(name, given, "the rollouts are", ratio)
    if not given.isfinite().all():
        bad = int((~given.isfinite()).sum())
        raise ValueError(f"{bad} of {given.numel()} {name} are NaN or infinite")
