"""The logits of distributions of torch."""

from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical
from torch.distributions.utils import clamp_probs, probs_to_logits

from carms.core.checks.tensors import check_floats, holds

__all__ = ["Group", "bernoulli_logits", "categorical_logits", "inside_independent"]

# Quoted, because only type checkers can subscript `Independent`.
Group: TypeAlias = "Tensor | Categorical | OneHotCategorical | Bernoulli | Independent[Any]"


def inside_independent(given: "Independent[Any]") -> Group:
    """The distribution inside, whose last batch dimension is that of the D variables."""
    nested = isinstance(given.base_dist, Independent)
    if given.reinterpreted_batch_ndims != 1 or nested:
        got = f"reinterpreted_batch_ndims={given.reinterpreted_batch_ndims}"
        raise ValueError(
            "an Independent must have one dimension of variables, as in "
            "Independent(Categorical(logits=[*batch, D, C]), 1), got "
            f"{'an Independent inside an Independent' if nested else got}"
        )
    inside: Group = given.base_dist
    return inside


def categorical_logits(given: Categorical) -> Tensor:
    """The logits, without the clamp of torch where they come from probabilities."""
    return _log(given.probs) if _made_of_probs(given) else given.logits


def bernoulli_logits(given: Bernoulli) -> Tensor:
    """``[*batch, D, 2]``: logits of zero and one."""
    if _made_of_probs(given):
        zero, one = _log(1 - given.probs), _log(given.probs)
    else:
        zero, one = torch.zeros_like(given.logits), given.logits
    if one.ndim < 1:
        raise ValueError("a Bernoulli must have shape [*batch, D], got a scalar")
    return torch.stack((zero, one), -1)


def _made_of_probs(given: Categorical | Bernoulli) -> bool:
    """Whether probabilities were given: torch derives logits from them, clamped, and keeps both."""
    check_floats("the parameter of the distribution", given._param)
    probs = vars(given).get("probs")
    if probs is None or given._param is probs:
        return probs is not None
    # Where torch knows both, `expand` takes the logits for what was given.
    binary = isinstance(given, Bernoulli)
    return holds(
        lambda: (
            bool((clamp_probs(probs) != probs).any())
            and torch.equal(probs_to_logits(probs, binary), given.logits)
        )
    )


def _log(probs: Tensor) -> Tensor:
    """``log(probs)`` whose gradient at zero is zero rather than NaN."""
    possible = probs > 0
    return torch.where(possible, torch.where(possible, probs, 1).log(), -torch.inf)
