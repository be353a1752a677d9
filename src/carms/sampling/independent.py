"""Independent draws of categories."""

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype
from carms.core.random import uniform
from carms.sampling.partition import Partition

__all__ = ["independent_samples"]


def independent_samples(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """``[samples, *batch]`` independent categories from ``probs [*batch, C]``."""
    u = uniform((samples, *probs.shape[:-1]), generator, precise_dtype(probs.device), probs.device)
    return Partition.of(probs).category(u)
