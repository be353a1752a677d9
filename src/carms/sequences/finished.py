"""Pair ratios of finished rollouts, from the logits of a trainer's own forward pass.

A server returns tokens, and not the intervals by which it drew them. But a token's interval is a
function of the logits: the probability of the tokens with smaller numbers, and its own.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import real_number
from carms.core.checks.tensors import check_floats, check_integers, check_same_device
from carms.core.dtypes import precise_dtype
from carms.core.pairs import take_pairs
from carms.sequences.circular_ratio import circular_ratio
from carms.sequences.coupling import epsilon_of
from carms.sequences.gaps import first_difference
from carms.sequences.pieces import Pieces
from carms.sequences.policy import Policy
from carms.sequences.repeatable import check_repeatable

__all__ = ["Places", "drift", "places", "ratios"]

# The number of logits that are turned into probabilities in double precision at a time.
CHUNK = 2**24


class Places(NamedTuple):
    """The probability of all tokens with smaller numbers, and the token's own, for each token."""

    below: Tensor
    probability: Tensor


@torch.no_grad()
def places(
    logits: Tensor,
    tokens: Tensor,
    temperature: float = 1.0,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Places:
    """Find where tokens lie among the others, from the logits that a trainer needs for its loss.

    Args:
        logits: ``[..., vocabulary]``, from which the token of the same place was drawn.
        tokens: ``[...]``, the tokens drawn.
        temperature: temperature of the sampler.
        top_k: top-k of the sampler.
        top_p: top-p of the sampler.

    Examples:
        >>> places(torch.tensor([0.5, 0.3, 0.2]).double().log(), torch.tensor(1))
        Places(below=tensor(0.5000, dtype=torch.float64), probability=tensor(0.3000, dtype=torch.float64))
    """  # noqa: E501
    check_floats("logits", logits)
    check_integers("tokens", tokens)
    if not logits.ndim or logits.shape[:-1] != tokens.shape:
        raise ValueError(
            f"logits must be [*tokens.shape, vocabulary], got {list(logits.shape)} for tokens of "
            f"shape {list(tokens.shape)}"
        )
    check_same_device("tokens", tokens, "the logits are", logits)
    if ((tokens < 0) | (tokens >= logits.shape[-1])).any():
        raise ValueError(
            f"tokens must be from 0 to {logits.shape[-1] - 1}, got {int(tokens.min())} to "
            f"{int(tokens.max())}; pad with any token, and leave padding out by the mask of ratios"
        )
    policy = Policy(temperature, top_k, top_p)
    rows, chosen = logits.reshape(-1, logits.shape[-1]), tokens.reshape(-1, 1).long()
    size = max(1, CHUNK // logits.shape[-1])
    parts = [
        _places(policy.probabilities(chunk), token)
        for chunk, token in zip(rows.split(size), chosen.split(size), strict=True)
    ]
    below, probability = (torch.cat(part).view(tokens.shape) for part in zip(*parts, strict=True))
    return Places(below, probability)


def _places(probs: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
    ends = probs.cumsum(-1, dtype=precise_dtype(probs.device))
    below = ends.gather(-1, (token - 1).clamp_min(0)).masked_fill_(token == 0, 0)
    return below / ends[:, -1:], probs.gather(-1, token) / ends[:, -1:]


@torch.no_grad()
def ratios(
    tokens: Tensor,
    below: Tensor,
    probability: Tensor,
    mask: Tensor | None = None,
    copula: str = "circular",
    epsilon: float | None = None,
    *,
    reported: Tensor | None = None,
    tolerance: float = 1e-2,
) -> Tensor:
    """``[P, N, N]``: the pair ratios of finished samples, which ``advantages`` takes.

    They are equal to ``pair_ratio`` of the sampler's record where the sampler's logits and the
    trainer's agree. Logits of another program differ a little; ``reported`` guards against more.

    All tokens that count must have been drawn in one request, or in one call of ``generate``: the
    next request of a conversation has a point of its own, and the gradient would be biased.

    Args:
        tokens: ``[P, N, length]``, the N rollouts of each prompt.
        below: ``[P, N, length]``, the probability of all tokens with smaller numbers, under the
            policy that drew them; see [`carms.sequences.places`][].
        probability: ``[P, N, length]``, the probability of each token itself.
        mask: ``[P, N, length]``, True for the tokens that count, including the end token. All
            count if None.
        copula: copula of the sampler.
        epsilon: epsilon of the sampler. Defaults to ``default_epsilon(N)``.
        reported: ``[P, N, length]``, the sampler's own probabilities of the tokens, if it returns
            them.
        tolerance: the largest allowed ``drift`` from the reported probabilities.

    Examples:
        >>> tokens = torch.tensor([[[0], [1], [1]]])                # three rollouts of one token
        >>> logits = torch.zeros(1, 3, 1, 2)
        >>> ratios(tokens, *places(logits, tokens), epsilon=0.0)
        tensor([[[1.0000, 0.7826, 0.7826],
                 [0.7826, 1.0000, 1.0000],
                 [0.7826, 1.0000, 1.0000]]], dtype=torch.float64)
    """
    _check_shapes(tokens, below=below, probability=probability, mask=mask, reported=reported)
    epsilon = epsilon_of(copula, epsilon, samples=tokens.shape[1])
    count = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.bool()
    own = probability.to(precise_dtype(tokens.device)).masked_fill(~count, 1)
    below = below.to(own.dtype).masked_fill(~count, 0)
    upto = below + own
    _check_probabilities(below, own, upto)
    if reported is not None:
        _check_drift(drift(probability, reported, mask), tolerance)
    if copula == "independent":
        return torch.ones_like(own[..., :1]).repeat(1, 1, tokens.shape[1])
    tokens = tokens.long().masked_fill(~count, -1)
    _check_prefixes(tokens)
    check_repeatable(tokens, own)
    above = (1 - upto).clamp_min(0)
    return circular_ratio(Pieces(tokens, below, upto, above, own), epsilon)


@torch.no_grad()
def drift(probability: Tensor, reported: Tensor, mask: Tensor | None = None) -> Tensor:
    """``[P, N]``: how far the place of each rollout on the ring moved from sampler to trainer.

    The difference of each token's probability, times the probability of the tokens before it: late
    tokens hardly move a rollout. A ratio ``R`` of two rollouts that drifted by ``d`` together is
    wrong by at most about ``N d R`` of itself.

    Args:
        probability: ``[P, N, length]``, probability of each token by the trainer's logits.
        reported: ``[P, N, length]``, the same by the sampler's logits.
        mask: ``[P, N, length]``, True for the tokens that count. All count if None.

    Examples:
        >>> drift(torch.tensor([[[0.5, 0.20]]]), torch.tensor([[[0.5, 0.22]]]))
        tensor([[0.0100]], dtype=torch.float64)
    """
    check_floats("probability", probability, "[P, N, length]")
    _check_alike("probability is", probability, reported=reported, mask=mask)
    own = probability.to(precise_dtype(probability.device))
    moved = (own - reported.to(own.dtype)).abs()
    if mask is not None:
        own, moved = own.masked_fill(~mask.bool(), 1), moved.masked_fill(~mask.bool(), 0)
    before = own.cumprod(-1).roll(1, -1)
    before[..., :1] = 1
    return (before * moved).sum(-1)


def _check_shapes(tokens: Tensor, **given: Tensor | None) -> None:
    check_integers("tokens", tokens)
    if tokens.ndim != 3 or tokens.shape[1] < 2 or not tokens.numel():
        raise ValueError(
            "tokens must be [P, N, length], at least 2 rollouts of each prompt, got shape "
            f"{list(tokens.shape)}"
        )
    _check_alike("tokens are", tokens, **given)


def _check_alike(what: str, like: Tensor, **given: Tensor | None) -> None:
    """Raise unless each tensor that is not None has the shape and the device of another."""
    for name, values in given.items():
        if values is None:
            continue
        if not isinstance(values, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(values).__name__}")
        if values.shape != like.shape:
            raise ValueError(
                f"{name} must be one per token, [P, N, length] = {list(like.shape)}, got shape "
                f"{list(values.shape)}"
            )
        check_same_device(name, values, what, like)


def _check_probabilities(below: Tensor, own: Tensor, upto: Tensor) -> None:
    if (own <= 0).any():
        raise ValueError(
            f"{int((own <= 0).sum())} tokens have probability 0, and cannot have been drawn: are "
            "temperature, top_k and top_p the sampler's?"
        )
    # Single precision is good enough, and adds up to a little more than 1.
    if not ((below >= 0) & (upto <= 1 + 1e-5)).all():
        raise ValueError(
            "below and probability must be probabilities, at most 1 together; got below from "
            f"{below.min():g} to {below.max():g}, together up to {upto.max():g}"
        )


def _check_prefixes(tokens: Tensor) -> None:
    """Raise if a rollout ends where another one of its group goes on with the same beginning."""
    rollouts = tokens.movedim(1, 0)
    fork = first_difference(rollouts).clamp_max(tokens.shape[-1] - 1).unsqueeze(-1)
    over = [each.gather(-1, fork) < 0 for each in take_pairs(rollouts)]
    if (over[0] ^ over[1]).any():
        raise ValueError(
            "a rollout is the beginning of another one of its group: the end token must be among "
            "its tokens, and in the mask"
        )


def _check_drift(found: Tensor, tolerance: float) -> None:
    far = ~(found <= real_number("tolerance", tolerance))  # NaN is far
    if far.any():
        raise ValueError(
            f"{int(far.sum())} of {far.numel()} rollouts drifted by more than {tolerance:g} of the "
            f"ring (by up to {found.max():g}) from the sampler's probabilities: are weights, "
            "temperature, top_k and top_p the sampler's?"
        )
