"""The expectation itself, by enumeration."""

import torch
from torch import Tensor

from carms.estimators.base import Draw, Estimator
from carms.inputs import Distribution, Variables, check_values, probabilities
from carms.precision import computing_dtype

__all__ = ["MAX_CONFIGURATIONS", "Exact"]

MAX_CONFIGURATIONS = 65_536


class Exact(Estimator):
    """Evaluate ``f`` on all ``C^D`` configurations: no variance, and the yardstick of the others.

    At most :data:`MAX_CONFIGURATIONS` of them. Values of ``f`` on configurations of probability
    zero are ignored.

    Args:
        samples: accepted so that all estimators can be made alike; enumeration needs none.
    """

    def __init__(self, samples: int | None = None) -> None:
        del samples
        self.samples = 0

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        probabilities(variables.logits)
        *batch, count, categories = variables.logits.shape
        if categories**count > MAX_CONFIGURATIONS:
            raise ValueError(
                f"exact enumerates at most {MAX_CONFIGURATIONS:,} configurations, got C^D = "
                f"{categories}^{count}"
            )
        one = torch.arange(categories, device=variables.logits.device)
        grid = torch.cartesian_prod(*[one] * count) if count else one.new_zeros(1, 0)
        grid = grid.reshape(len(grid), *[1] * len(batch), count)
        return Draw(variables, grid.expand(-1, *batch, -1))

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        logits = draw.variables.logits
        dtype = computing_dtype(logits.dtype)
        if isinstance(fz, Tensor) and fz.is_floating_point():
            dtype = torch.promote_types(dtype, fz.dtype)
        probs = logits.to(dtype).softmax(-1)
        chosen = probs.expand(*draw.indices.shape, -1).gather(-1, draw.indices.unsqueeze(-1))
        weights = chosen.squeeze(-1).prod(-1)
        if isinstance(fz, Tensor) and fz.shape == weights.shape and fz.is_floating_point():
            fz = torch.where(weights > 0, fz, 0)
        fz = check_values(fz, draw.indices.shape)
        return (weights * fz).sum(0).to(fz.dtype)
