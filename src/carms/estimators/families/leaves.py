"""Samples with respect to which ``f`` is differentiated."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.dtypes import plain_numerics
from carms.core.one_hot import one_hot
from carms.core.probabilities import probabilities
from carms.core.transforms import no_transforms, wants_gradient
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw, Estimator
from carms.sampling.independent import independent_samples

__all__ = ["WithLeaf", "independent_one_hot", "leaf", "samples_with_slopes"]


def leaf(values: Tensor, variables: Variables) -> Tensor:
    """``values`` without their graph; they require a gradient if that of the logits is wanted."""
    with no_transforms():
        return values.detach().requires_grad_(wants_gradient(variables.logits))


class WithLeaf(NamedTuple):
    """What a draw remembers beside its samples.

    Attributes:
        probs: ``[*batch, D, C]``.
        leaf: ``[N, *batch, D, C]``, the one-hot samples with respect to which ``f`` has slopes.
    """

    probs: Tensor
    leaf: Tensor


def samples_with_slopes(
    maker: Estimator, logits: Distribution, generator: torch.Generator | None
) -> Draw[WithLeaf]:
    """Independent one-hot samples with respect to which ``f`` can be differentiated."""
    variables = Variables.of(logits)
    probs, indices, hard = independent_one_hot(maker.samples, variables, generator)
    seen = leaf(hard, variables)
    return Draw(maker, variables, indices, WithLeaf(probs, seen), differentiable=seen)


def independent_one_hot(
    samples: int, variables: Variables, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities ``[*batch, D, C]``, and independent samples: categories ``[N, *batch, D]``, and
    the same one-hot ``[N, *batch, D, C]``.
    """
    with plain_numerics(variables.logits):
        probs = probabilities(variables.logits)
        indices = independent_samples(probs, samples, generator)
        return probs, indices, one_hot(indices, probs.shape[-1], probs.dtype)
