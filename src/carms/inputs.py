"""Where a user's values enter: every check of them, once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, OneHotCategorical

__all__ = [
    "Distribution",
    "Variables",
    "check_probs",
    "check_values",
    "computing_dtype",
    "probabilities",
]

Distribution = Tensor | Categorical | OneHotCategorical | Bernoulli


@dataclass(frozen=True)
class Variables:
    """Categorical variables as logits ``[*batch, D, C]``.

    Attributes:
        binary: they came as a Bernoulli, whose samples are zeros and ones ``[*batch, D]``.
    """

    logits: Tensor
    binary: bool = False

    @staticmethod
    def of(given: Distribution) -> "Variables":
        """Take logits or a distribution as the user has it."""
        if isinstance(given, Bernoulli):
            one = given.logits
            if one.ndim < 1:
                raise ValueError("a Bernoulli must have shape [*batch, D], got a scalar")
            return Variables(torch.stack((torch.zeros_like(one), one), -1), binary=True)
        logits = given.logits if isinstance(given, Categorical | OneHotCategorical) else given
        if not isinstance(logits, Tensor):
            raise TypeError(
                "logits must be a tensor or a Categorical, OneHotCategorical or Bernoulli "
                f"distribution, got {type(given).__name__}"
            )
        if not logits.is_floating_point():
            raise TypeError(f"logits must be floating point, got {logits.dtype}")
        shape = list(logits.shape)
        if logits.ndim < 2:
            raise ValueError(
                f"logits must be [*batch, D, C] (D variables of C categories), got shape {shape}; "
                "for a single variable, use logits.unsqueeze(-2)"
            )
        if logits.shape[-1] < 2:
            raise ValueError(f"a variable needs at least 2 categories, got logits of shape {shape}")
        return Variables(logits)


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision is computed in single."""
    return dtype if dtype.itemsize >= 4 else torch.float32


def probabilities(logits: Tensor) -> Tensor:
    """``softmax(logits)`` outside the graph, or an error that names the bad logits."""
    probs = logits.detach().to(computing_dtype(logits.dtype)).softmax(-1)
    # One NaN or +inf, or nothing but -inf, makes every probability of a row NaN.
    if _holds(lambda: probs[..., 0].isnan().any()):
        row = logits.detach()[probs[..., 0].isnan()][0]
        what = (
            "NaN" if row.isnan().any() else "+inf" if row.isposinf().any() else "nothing but -inf"
        )
        raise ValueError(
            f"logits must be finite, or -inf for categories that are never drawn; got {what}"
        )
    return probs


def check_probs(probs: Tensor) -> Tensor:
    """Non-negative ``[*batch, C]``, not necessarily normalised, in single precision or more."""
    if not probs.is_floating_point():
        raise TypeError(f"probs must be floating point, got {probs.dtype}")
    if probs.ndim < 1 or probs.shape[-1] < 2:
        raise ValueError(
            f"probs must be [*batch, C] with at least 2 categories, got shape {list(probs.shape)}"
        )
    probs = probs.detach().to(computing_dtype(probs.dtype))
    if _holds(lambda: ~((probs >= 0).all() & probs.sum(-1).isfinite().all())):
        raise ValueError(
            "probs must be non-negative and finite, got negative, NaN or infinite ones"
        )
    if _holds(lambda: (probs.sum(-1) <= 0).any()):
        raise ValueError("probs must have a positive sum over the categories, got all zeros")
    return probs


def check_values(values: object, expected: torch.Size) -> Tensor:
    """What ``f`` returned, if it is finite floats of the expected shape ``[N, *batch]``."""
    shape = list(expected)
    if not isinstance(values, Tensor):
        raise TypeError(
            f"f must return a tensor [N, *batch] = {shape}, got {type(values).__name__}"
        )
    if values.shape != expected:
        raise ValueError(
            f"f must return one value per sample, [N, *batch] = {shape}, "
            f"got shape {list(values.shape)}"
        )
    if not values.is_floating_point():
        raise TypeError(f"f must return floating point values, got {values.dtype}")
    if _holds(lambda: ~values.isfinite().all()):
        bad = int((~values.isfinite()).sum())
        raise ValueError(f"f returned NaN or infinity for {bad} of {values.numel()} samples")
    return values


def _holds(condition: Callable[[], Tensor]) -> bool:
    """Look at values where that is possible: not while compiling, nor under ``vmap``."""
    if torch.compiler.is_compiling():
        return False
    try:
        return bool(condition())
    except RuntimeError as error:
        if "vmap" in str(error):
            return False
        raise
