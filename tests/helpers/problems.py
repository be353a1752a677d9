"""Logits, probabilities and functions with known expectations."""

import itertools

import numpy as np
import torch
from torch import Tensor


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def logits_of(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=generator(seed), dtype=dtype, requires_grad=True)


def dirichlet_probs(concentration: float, *shape: int, seed: int = 0, floor: float = 0.0) -> Tensor:
    """``[*shape]`` probabilities in float64, none below (about) ``floor``."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([concentration] * shape[-1], shape[:-1]).clip(min=floor)
    return torch.from_numpy(probs / probs.sum(-1, keepdims=True))


class RandomTable:
    """An ``f`` without structure: one random number for every configuration.

    Between the configurations it is smooth, and curved even along the edges.
    """

    def __init__(self, variables: int, categories: int, seed: int = 0) -> None:
        self.variables, self.categories = variables, categories
        self.values = torch.randn(
            [categories] * variables, generator=generator(seed), dtype=torch.float64
        )

    def of_indices(self, indices: Tensor) -> Tensor:
        return self.values[indices.long().unbind(-1)]

    def __call__(self, z: Tensor) -> Tensor:
        if not z.requires_grad:
            return self.of_indices(z.argmax(-1))
        z = z.double()
        inner = self.values.expand(*z.shape[:-2], *self.values.shape)
        for one in z.unbind(-2):
            inner = (one.view(*one.shape, *[1] * (inner.ndim - one.ndim)) * inner).sum(z.ndim - 2)
        bend = torch.sin(1.0 + torch.arange(self.categories))
        return inner + (bend * (z**3 - z)).sum((-2, -1))

    def of_bits(self, z: Tensor) -> Tensor:
        return self(torch.stack((1 - z, z), -1))

    def expectation(self, probs: Tensor) -> tuple[float, Tensor]:
        """``E f`` and its gradient with respect to the logits, for ``probs [D, C]``."""
        value, gradient = 0.0, torch.zeros_like(probs)
        for configuration in itertools.product(range(self.categories), repeat=self.variables):
            chosen = torch.zeros_like(probs)
            for variable, category in enumerate(configuration):
                chosen[variable, category] = 1
            weight = float((probs * chosen).sum(-1).prod() * self.values[configuration])
            value += weight
            gradient += weight * (chosen - probs)
        return value, gradient


def configurations(variables: int, categories: int) -> Tensor:
    """All one-hot configurations, ``[C^D, D, C]`` in float64."""
    rows = list(itertools.product(range(categories), repeat=variables))
    return torch.nn.functional.one_hot(torch.tensor(rows), categories).double()


def curved(z):
    weight = torch.linspace(-1, 1.5, z.shape[-1], dtype=z.dtype)
    return ((z * weight).sum((-2, -1)) - 0.4).square() + 3


def polynomial(degree, seed=0):
    """A random polynomial of two variables of three categories, linear at degree 1."""
    weights = torch.randn(4, degree, 2, 3, generator=generator(seed), dtype=torch.float64)

    def f(z):
        inner = torch.einsum("...dc,wkdc->...wk", z, weights)
        return inner.prod(-1).sum(-1)

    return f


def network(variables, categories, seed=0):
    """A random network of two layers."""
    source = generator(seed)
    first = torch.randn(variables, categories, 16, generator=source, dtype=torch.float64)
    last = torch.randn(16, generator=source, dtype=torch.float64)

    def f(z):
        return torch.einsum("...dc,dch->...h", z, first / variables**0.5).tanh() @ last

    return f


def quadratic(z):
    """The square of a weighted sum, for any number of variables and categories."""
    weight = torch.arange(z.shape[-1], dtype=z.dtype) + 1
    return (z * weight).sum((-2, -1)).square()
