"""The variables of a user, given as logits, a distribution, or a tuple of these."""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical
from torch.distributions.utils import clamp_probs, probs_to_logits

from carms.core.checks.tensors import check_floats, check_same_device, holds
from carms.core.dtypes import computing_dtype
from carms.core.groups import join, split
from carms.core.one_hot import one_hot
from carms.core.softmax import softmax

__all__ = ["Distribution", "Variables", "probabilities"]

# Quoted, because only type checkers can subscript `Independent`.
Group: TypeAlias = "Tensor | Categorical | OneHotCategorical | Bernoulli | Independent[Any]"
Distribution: TypeAlias = "Group | tuple[Group, ...]"


@dataclass(frozen=True, eq=False)
class Variables:
    """Categorical variables as logits ``[*batch, D, C]``.

    Attributes:
        binary: they came as a Bernoulli, whose samples are zeros and ones ``[*batch, D]``.
        groups: they came as a tuple; ``f`` sees a tensor for each of these.
    """

    logits: Tensor
    binary: bool = False
    groups: tuple["Variables", ...] = ()

    @property
    def categories(self) -> list[int]:
        """The number of categories of each variable; those of groups have their own."""
        if self.groups:
            return [number for group in self.groups for number in group.categories]
        return [self.logits.shape[-1]] * self.logits.shape[-2]

    def samples(self, indices: Tensor) -> Any:
        """What ``f`` sees of categories ``[..., D]``: one-hot ``[..., D, C]`` in the dtype of the
        logits; of a Bernoulli, zeros and ones ``[..., D]``; of groups, a tuple of these.
        """
        if self.groups:
            parts = zip(self.groups, self.indices(indices), strict=True)
            return tuple(group.samples(part) for group, part in parts)
        dtype = self.logits.dtype
        return indices.to(dtype) if self.binary else one_hot(indices, self.logits.shape[-1], dtype)

    def soft_samples(self, z: Tensor) -> Any:
        """What ``f`` sees of soft samples ``[..., D, C]``, in the shapes of ``samples``."""
        if self.groups:
            parts = zip(self.groups, split(z, [each.logits for each in self.groups]), strict=True)
            return tuple(group.soft_samples(part) for group, part in parts)
        return (z[..., 1] if self.binary else z).to(self.logits.dtype)

    def indices(self, indices: Tensor) -> Any:
        """Categories ``[..., D]`` as they are; of groups, a tuple."""
        if not self.groups:
            return indices
        return indices.split([each.logits.shape[-2] for each in self.groups], -1)

    @staticmethod
    @torch.enable_grad()
    def of(given: Distribution) -> "Variables":
        """Make Variables of logits, a distribution or a tuple of groups.

        Their graph is kept under ``torch.no_grad()`` too: a draw that is made there may get its
        values, and then its gradient, outside.
        """
        if isinstance(given, tuple):
            return _side_by_side(tuple(map(Variables.of, given)))
        if isinstance(given, Independent):
            return Variables.of(_inside_independent(given))
        if isinstance(given, Bernoulli):
            return Variables(_bernoulli_logits(given), binary=True)
        if isinstance(given, Categorical):
            logits = _categorical_logits(given)
        elif isinstance(given, OneHotCategorical):
            logits = _categorical_logits(given._categorical)
        elif isinstance(given, Tensor):
            logits = check_floats("logits", given)
        else:
            raise TypeError(
                "logits must be a tensor or a Categorical, OneHotCategorical or Bernoulli "
                "distribution, also inside Independent, or a tuple of these, got "
                f"{type(given).__name__}{'; use tuple(logits)' * isinstance(given, list)}"
            )
        if logits.ndim < 2:
            hint = "; for a single variable, use logits.unsqueeze(-2)" if logits.ndim else ""
            raise ValueError(
                "logits must be [*batch, D, C] (D variables of C categories), got shape "
                f"{list(logits.shape)}{hint}"
            )
        if logits.shape[-1] < 2:
            raise ValueError(
                f"a variable needs at least 2 categories, got logits of shape {list(logits.shape)}"
            )
        return Variables(logits)


def _side_by_side(groups: tuple[Variables, ...]) -> Variables:
    """Groups of variables as one, if their batch shapes are equal."""
    if not groups or any(group.groups for group in groups):
        raise ValueError(
            "a tuple of logits must hold one or more groups [*batch, D, C], and no tuples"
        )
    batches = [list(group.logits.shape[:-2]) for group in groups]
    if any(batch != batches[0] for batch in batches):
        raise ValueError(
            "all groups must have the same batch shape, as in [*batch, D, C]; got "
            f"{' and '.join(map(str, batches))}"
        )
    for group in groups:
        check_same_device("each group", group.logits, "the first is", groups[0].logits)
    return Variables(join([group.logits for group in groups]), groups=groups)


def _inside_independent(given: "Independent[Any]") -> Group:
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


def _categorical_logits(given: Categorical) -> Tensor:
    """The logits, without the clamp of torch where they come from probabilities."""
    return _log(given.probs) if _made_of_probs(given) else given.logits


def _bernoulli_logits(given: Bernoulli) -> Tensor:
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


def probabilities(logits: Tensor) -> Tensor:
    """``softmax(logits)`` outside the graph, or an error that names the bad logits."""
    probs = softmax(logits.detach().to(computing_dtype(logits.dtype)))
    # One NaN or +inf, or nothing but -inf, makes every probability of a row NaN.
    if holds(lambda: math.isnan(probs.sum())):
        row = logits.detach()[probs[..., 0].isnan()][0]
        what = (
            "NaN" if row.isnan().any() else "+inf" if row.isposinf().any() else "nothing but -inf"
        )
        raise ValueError(
            f"logits must be finite, or -inf for categories that are never drawn; got {what}"
        )
    return probs
