"""The variables of a user, given as logits, a distribution, or a tuple of these."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

from carms.core.checks.tensors import check_floats, check_same_device
from carms.core.distributions import (
    Group,
    bernoulli_logits,
    categorical_logits,
    inside_independent,
)
from carms.core.groups import join, split
from carms.core.one_hot import one_hot

__all__ = ["Distribution", "Variables"]

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
            return Variables.of(inside_independent(given))
        if isinstance(given, Bernoulli):
            return Variables(bernoulli_logits(given), binary=True)
        if isinstance(given, Categorical):
            logits = categorical_logits(given)
        elif isinstance(given, OneHotCategorical):
            logits = categorical_logits(given._categorical)
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
