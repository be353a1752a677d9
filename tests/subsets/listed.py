"""All rankings of a few items, and what follows from the list: no integral, no race."""

import itertools
from functools import cached_property

import torch
from helpers import generator
from torch import Tensor


class Rankings:
    """Every ranking of ``size`` items under some logits, and every subset as a group of them."""

    def __init__(self, logits: Tensor, size: int) -> None:
        self.logits, self.size = logits, size
        self.items = torch.tensor(list(itertools.permutations(range(len(logits)), size)))
        rows = torch.stack([self._probability_and_score(row) for row in self.items.tolist()])
        self.probs, self.scores = rows[:, 0], rows[:, 1:]

    def _probability_and_score(self, ranking: list[int]) -> Tensor:
        weights = self.logits.exp().tolist()
        probability, score = 1.0, [0.0] * len(weights)
        left = set(range(len(weights)))
        for item in ranking:
            total = sum(weights[other] for other in left)
            probability *= weights[item] / total
            score[item] += 1
            for other in left:
                score[other] -= weights[other] / total
            left.remove(item)
        return torch.tensor([probability, *score], dtype=torch.float64)

    @cached_property
    def z(self) -> Tensor:
        """``[rankings, n]``: the subset of each ranking."""
        return torch.zeros(len(self.items), len(self.logits)).double().scatter(-1, self.items, 1)

    @cached_property
    def subset(self) -> Tensor:
        """``[rankings]``: the number of the subset of each."""
        return torch.unique(self.z, dim=0, return_inverse=True)[1]

    def over_subsets(self, values: Tensor) -> Tensor:
        """Sums ``[subsets, ...]`` of ``values [rankings, ...]``."""
        zeros = torch.zeros(int(self.subset.max()) + 1, *values.shape[1:]).to(values)
        return zeros.index_add(0, self.subset, values)

    def index(self, items: Tensor) -> Tensor:
        """Which of the rankings ``items [..., k]`` are."""
        base = len(self.logits) ** torch.arange(self.size)
        place = torch.full((len(self.logits) ** self.size,), -1)
        place[(self.items * base).sum(-1)] = torch.arange(len(self.items))
        return place[(items * base).sum(-1)]

    def gradient(self, values: Tensor) -> Tensor:
        """Of the expectation of ``values [rankings]``."""
        return (self.probs * values) @ self.scores


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def table_of_subsets(items: int, seed: int = 0):
    """An ``f`` of subsets without structure, smooth between them."""
    values, curve = normal(2**items, seed=seed), normal(items, items, seed=seed + 1)
    powers = 2.0 ** torch.arange(items, dtype=torch.float64)

    def f(z: Tensor) -> Tensor:
        z = z.double()
        found = values[(z.detach() @ powers).round().long()]
        # Zero on subsets, but not its slopes; and a part that slopes tell about.
        return found + ((z**2 - z) * curve[0]).sum(-1) + (z @ curve).square().sum(-1)

    return f


def table_of_rankings(items: int, size: int, seed: int = 0):
    values = normal(*[items] * size, seed=seed)
    return lambda drawn: values[drawn.unbind(-1)]
