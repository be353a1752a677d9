"""Matrix products that keep all digits."""

import torch
from torch import Tensor

from carms.core.dtypes import without_autocast

__all__ = ["exact_product"]


def exact_product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right``, not under autocast, and on a GPU in double precision.

    Many programs allow TF32 there, which leaves three digits of single precision: fine for the
    weights of a network, but not for values whose differences count.
    """
    with without_autocast(left):
        if left.device.type == "cuda" and left.dtype == torch.float32:
            return (left.double() @ right.double()).to(left.dtype)
        return left @ right
