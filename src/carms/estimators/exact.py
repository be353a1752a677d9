"""The expectation itself, by enumeration."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_generator, check_memory, holds
from carms.core.dtypes import computing_dtype
from carms.core.probabilities import probabilities
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw, Estimator
from carms.estimators.registry import register

__all__ = ["MAX_CONFIGURATIONS", "Exact"]

MAX_CONFIGURATIONS = 65_536


class Memory(NamedTuple):
    """What a draw of ``exact`` remembers beside its samples.

    Attributes:
        grid: all configurations, ``[C^D, *batch, D]``, the impossible ones too.
    """

    grid: Tensor


@register("exact")
class Exact(Estimator):
    """Evaluate ``f`` on all ``C^D`` configurations: no variance, and the yardstick of the others.

    There may be at most 65,536 configurations. In the place of a category of probability zero,
    ``f`` is given the likeliest one, with weight zero.

    Args:
        samples: accepted so that all estimators can be made alike; enumeration needs none.

    Examples:
        >>> import carms
        >>> logits = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> value = carms.expectation(lambda z: z[..., 0, 1], logits, "exact")
        >>> value.detach(), torch.autograd.grad(value, logits)[0]  # a probability, its slope
        (tensor(0.7311), tensor([[-0.1966,  0.1966]]))
    """

    least_samples = 0

    def __init__(self, samples: int | None = None) -> None:
        super().__init__(0)
        if samples is not None:
            self._check_samples(samples)

    def evaluations(self, variables: int, categories: int) -> int:
        return int(categories**variables)

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        check_generator(generator, variables.logits.device)
        probs = probabilities(variables.logits)
        *batch, count, _ = variables.logits.shape
        categories = variables.categories
        if math.prod(categories) > MAX_CONFIGURATIONS:
            powers = [
                f"{number}^{categories.count(number)}" for number in dict.fromkeys(categories)
            ]
            raise ValueError(
                f"exact enumerates at most {MAX_CONFIGURATIONS:,} configurations, got C^D = "
                f"{' * '.join(powers)}"
            )
        shape = (math.prod(categories), *variables.logits.shape)
        check_memory("all configurations", shape, 4, variables.logits.device)
        each = [torch.arange(number, device=variables.logits.device) for number in categories]
        grid = torch.cartesian_prod(*each) if count else probs.new_zeros(1, 0, dtype=torch.long)
        grid = grid.reshape(len(grid), *[1] * len(batch), count).expand(-1, *batch, -1)
        if holds(lambda: (probs > 0).all()):
            return Draw(self, variables, grid, Memory(grid))
        possible = (probs > 0).expand(*grid.shape, -1).gather(-1, grid.unsqueeze(-1)).squeeze(-1)
        seen = torch.where(possible, grid, probs.argmax(-1))
        return Draw(self, variables, seen, Memory(grid))

    def surrogate(self, draw: Draw[Memory], fz: Tensor, terms: Tensor | None = None) -> Tensor:
        fz = self._check_values(draw, fz, terms)
        # Nothing is left to chance, so it does not matter which terms a variable sees.
        fz = fz if terms is None else fz.sum(-1)
        logits, grid = draw.variables.logits, draw.memory.grid
        probs = logits.to(torch.promote_types(computing_dtype(logits.dtype), fz.dtype)).softmax(-1)
        chosen = probs.expand(*grid.shape, -1).gather(-1, grid.unsqueeze(-1))
        weights = chosen.squeeze(-1).prod(-1)
        # A constant cancels in the gradient; subtract one before it is rounded.
        wide = fz.to(probs.dtype)
        likeliest = wide.detach().gather(0, weights.detach().argmax(0, keepdim=True))
        return (likeliest[0] + (weights * (wide - likeliest)).sum(0)).to(fz.dtype)
