"""Advantages of correlated rollouts, corrected pair by pair."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_floats, check_same_device, holds
from carms.core.dtypes import precise_dtype
from carms.core.surrogate import first_derivative_only, tied, zeros_with_gradient_of
from carms.sequences.circular_ratio import circular_ratio, prefix_ratios
from carms.sequences.record import Rollouts

__all__ = ["advantages", "pair_ratio", "surrogate"]

_NO_MASK = (
    "mask is for pair ratios with rewards for every token: rollouts know where they "
    "end, and rewards of whole rollouts need no mask"
)


def pair_ratio(rollouts: Rollouts) -> Tensor:
    """``[P, N, N]``: the ratio ``q(a) q(b) / P(a, b)`` of every two rollouts of a prompt.

    It says how much rarer than by chance the two are drawn together, in closed form from their
    intervals and what lies between them. Equal rollouts that are complete get 1: their scores are
    equal, so that a pair of them has no effect on a gradient.
    """
    if _check_record(rollouts).copula == "independent":
        return torch.ones_like(rollouts.lower[..., :1]).repeat(1, 1, rollouts.samples)
    return circular_ratio(rollouts.pieces, rollouts.epsilon, rollouts.complete)


def advantages(rewards: Tensor, rollouts: Rollouts | Tensor, mask: Tensor | None = None) -> Tensor:
    """``1/(N-1) sum_m (r_n - r_m) R_nm``, which takes the place of leave-one-out advantages.

    The gradient ``1/N sum_n A_n d log q(rollout n)`` is unbiased. For independent rollouts every
    ratio ``R`` is 1, and these are the advantages of RLOO.

    Rewards for every token give advantages for every token: the sum of such terms over the rewards
    from there on, each with the pair ratio of the two rollouts up to that reward.

    Args:
        rewards: ``[P, N]``, one for each rollout; or ``[P, N, length]``, one for each token. Those
            after the end of a rollout are ignored, and those after the end of all may be missing.
        rollouts: from [`carms.sequences.rollouts`][]; or their pair ratios ``[P, N, N]``, as
            [`carms.sequences.ratios`][] computes them of finished samples.
        mask: ``[P, N, length]``, True for the tokens that count, as for ``ratios``. It is needed
            for pair ratios and rewards for every token, since ratios do not tell where a rollout
            ends, and only there. Tokens of an environment do not count, but rewards for them do if
            others that count come after them.

    Returns:
        Advantages in the shape of the rewards; zero for tokens that do not count.

    Examples:
        >>> from carms.sequences import rollouts
        >>> step = lambda tokens, cache: (torch.zeros(len(tokens), 3), None)
        >>> group = rollouts(step, torch.zeros(1, 0, dtype=torch.long), 3, 2, copula="independent")
        >>> advantages(torch.tensor([[1.0, 0.0, 0.0]]), group)
        tensor([[ 1.0000, -0.5000, -0.5000]])
        >>> advantages(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]), group)
        tensor([[[ 0.5000, -0.5000],
                 [ 0.5000,  1.0000],
                 [-1.0000, -0.5000]]])
    """
    found, _ = _advantages(rewards, _source(rollouts, mask))
    return found.to(rewards.dtype)


def surrogate(
    rewards: Tensor,
    log_probs: Tensor,
    rollouts: Rollouts | Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """``[P]``: the mean reward, whose backward pass estimates the gradient of the
    expected reward.

    It puts ``1/N sum_n A_n d log q(rollout n)`` on the model by way of ``log_probs``, and the
    ordinary gradient on whatever the rewards themselves were made of.

    Args:
        rewards: ``[P, N]`` or ``[P, N, length]``, as for [`carms.sequences.advantages`][], with
            their graph if they have one.
        log_probs: the log probability of each rollout under the model, or of each token, in the
            shape of the rewards and with its graph.
        rollouts: from [`carms.sequences.rollouts`][], or their pair ratios.
        mask: ``[P, N, length]``, as for [`carms.sequences.advantages`][].
    """
    weights, counted = _advantages(rewards, _source(rollouts, mask))
    hint = "; sum the log probabilities of its tokens where rollouts.mask is True"
    _check_numbers(
        "log_probs", log_probs, [*rewards.shape], rewards, hint if counted is None else ""
    )
    zeros = weights * zeros_with_gradient_of(first_derivative_only(log_probs, rewards))
    rewards = tied(rewards, log_probs)
    if counted is not None:
        zeros, rewards = zeros.sum(-1), rewards.masked_fill(_ended(counted), 0).sum(-1)
    return rewards.mean(-1) + zeros.mean(-1).to(rewards.dtype)


class _Recorded(NamedTuple):
    """A record of rollouts, which knows where they end and their ratios up to each token."""

    rollouts: Rollouts
    mask: Tensor | None

    @property
    def like(self) -> Tensor:
        """A tensor ``[P, N, ...]`` on the device of the rollouts."""
        return self.rollouts.tokens

    def length(self, given: int) -> int:
        """How many tokens must have a reward, if ``given`` have one: all, or fewer if these reach
        to the end of the longest rollout, after which no step of an environment is taken.
        """
        length = self.rollouts.tokens.shape[2]
        return given if given < length and int(self.rollouts.lengths.max()) <= given else length

    def counted(self, rewards: Tensor) -> Tensor:
        """True for the tokens ``[P, N, length]`` that count."""
        if self.mask is not None:
            raise ValueError(_NO_MASK)
        return self.rollouts.mask[..., : rewards.shape[2]]

    def ratio(self) -> Tensor:
        return pair_ratio(self.rollouts)

    def prefix_ratios(self, length: int) -> Iterable[Tensor]:
        """``[P, N, N]`` for each token: the pair ratios of the rollouts up to it."""
        if self.rollouts.copula == "independent":
            return [self.ratio()] * length
        return islice(prefix_ratios(self.rollouts.pieces, self.rollouts.epsilon), length)


class _Computed(NamedTuple):
    """Pair ratios of whole rollouts, and a mask of the tokens that count."""

    ratios: Tensor
    mask: Tensor | None

    @property
    def like(self) -> Tensor:
        """A tensor ``[P, N, ...]`` on the device of the rollouts."""
        return self.ratios

    def length(self, given: int) -> int:
        return given

    def counted(self, rewards: Tensor) -> Tensor:
        mask = self.mask
        if not isinstance(mask, Tensor) or mask.shape != rewards.shape:
            got = list(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(
                "pair ratios do not tell where rollouts end: with rewards for every token give "
                f"mask, [P, N, length] = {list(rewards.shape)}, True for the tokens that count; "
                f"got {got}"
            )
        check_same_device("mask", mask, "rewards are", rewards)
        return mask.bool()

    def ratio(self) -> Tensor:
        return self.ratios

    def prefix_ratios(self, length: int) -> Iterable[Tensor]:
        """Ratios of whole rollouts: these are unbiased too, and have more variance."""
        return [self.ratios] * length


def _source(rollouts: Rollouts | Tensor, mask: Tensor | None) -> _Recorded | _Computed:
    if isinstance(rollouts, Tensor):
        return _Computed(_check_ratio(rollouts), mask)
    return _Recorded(_check_record(rollouts), mask)


def _advantages(rewards: Tensor, source: _Recorded | _Computed) -> tuple[Tensor, Tensor | None]:
    """The advantages in double precision where there is such, since rounded ones would be biased,
    and which tokens ``[P, N, length]`` count; None if rewards are of whole rollouts.
    """
    per_token = isinstance(rewards, Tensor) and rewards.ndim == 3
    shape = [*source.like.shape[:2], *([source.length(rewards.shape[2])] if per_token else [])]
    _check_numbers("rewards", rewards, shape, source.like)
    values = rewards.detach().to(precise_dtype(rewards.device))
    if not per_token:
        if source.mask is not None:
            raise ValueError(_NO_MASK)
        return _weighted_differences(values, source.ratio()), None
    counted = source.counted(rewards)
    token_rewards = values.masked_fill(_ended(counted), 0).unbind(-1)
    ratios = source.prefix_ratios(len(token_rewards))
    terms = [_weighted_differences(*each) for each in zip(token_rewards, ratios, strict=True)]
    from_there_on = torch.stack(terms, -1).flip(-1).cumsum(-1).flip(-1)
    return from_there_on.masked_fill(~counted, 0), counted


def _weighted_differences(rewards: Tensor, ratio: Tensor) -> Tensor:
    """``[P, N]``: mean of ``(r_n - r_m) R_nm`` over the other rollouts m."""
    differences = rewards.unsqueeze(-1) - rewards.unsqueeze(-2)
    return (differences * ratio).sum(-1) / (ratio.shape[-1] - 1)


def _ended(counted: Tensor) -> Tensor:
    """True after the last token that counts; those of an environment may be in between."""
    return counted.flip(-1).cumsum(-1).flip(-1) == 0


def _check_record(rollouts: object) -> Rollouts:
    if not isinstance(rollouts, Rollouts):
        raise TypeError(
            f"rollouts must come from carms.sequences.rollouts, got {type(rollouts).__name__}"
        )
    return rollouts


def _check_ratio(ratio: Tensor) -> Tensor:
    check_floats("pair ratios", ratio)
    shape = list(ratio.shape)
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 2:
        raise ValueError(f"pair ratios must be [P, N, N] with N at least 2, got shape {shape}")
    return ratio


def _check_numbers(
    name: str, value: object, shape: list[int], like: Tensor, hint: str = ""
) -> None:
    """Raise unless there is a finite number for each rollout, or for each of its tokens."""
    layout, unit = ("[P, N, length]", "token") if len(shape) == 3 else ("[P, N]", "rollout")
    given = check_floats(name, value, f"{layout} = {shape}")
    if list(given.shape) != shape:
        raise ValueError(
            f"{name} must be one number per {unit}, {layout} = {shape}, got shape "
            f"{list(given.shape)}{hint}"
        )
    check_same_device(name, given, "the rollouts are", like)
    if holds(lambda: not given.isfinite().all()):
        bad = int((~given.isfinite()).sum())
        raise ValueError(f"{bad} of {given.numel()} {name} are NaN or infinite")
