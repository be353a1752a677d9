"""Sums of terms, each a random table of some of three variables."""

import torch

import carms
from helpers.facts import BINARY_ONLY
from helpers.problems import RandomTable, generator

TAKES = [name for name in carms.available() if not carms.make(name, samples=4).no_terms]
REFUSES = [name for name in carms.available() if name not in TAKES]
MASKS = {
    "separable": torch.eye(3, dtype=torch.bool),
    "reward-to-go": torch.ones(3, 3).tril(),
    # Two factors, a term of one variable alone, and one that is a constant.
    "factors": torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]]),
}


class Terms:
    """Random tables, each a function of those of three variables that its row of the mask names."""

    def __init__(self, mask, categories, seed=0):
        self.mask = mask
        shape = len(mask), categories, categories, categories
        self.tables = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
        for table, row in zip(self.tables, mask.bool().tolist(), strict=True):
            others = [variable for variable, own in enumerate(row) if not own]
            if others:
                table[:] = table.mean(others, keepdim=True)
        self.total = RandomTable(3, categories)
        self.total.values = self.tables.sum(0)

    def of_indices(self, indices):
        return self.tables[:, *indices.long().unbind(-1)].movedim(0, -1)

    def __call__(self, z):
        return self.of_indices(z.argmax(-1))


def categories_for(name):
    return 2 if name in BINARY_ONLY else 3
