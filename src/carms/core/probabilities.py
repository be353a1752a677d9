"""Probabilities from the logits of a user."""

import math

from torch import Tensor

from carms.core.checks.tensors import holds
from carms.core.dtypes import computing_dtype
from carms.core.softmax import softmax

__all__ = ["probabilities"]


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
