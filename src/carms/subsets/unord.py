"""The unordered set estimator: draws without repetition."""

from carms.estimators.unord import Unord as UnordOfCategories
from carms.subsets.by_categories import ByCategories

__all__ = ["Unord"]


class Unord(ByCategories):
    """N different subsets, or rankings, weighted by how surely each was among them.

    Unbiased, for any ``f``; N evaluations, all distinct if there are N of them. At most
    65,536 subsets or rankings, whose probabilities are all computed.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 2.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    References:
        Kool, van Hoof and Welling (2020) [kool2020]

    Examples:
        >>> import torch
        >>> draw = Unord(size=2, samples=6).sample(torch.zeros(4))
        >>> len(draw.z.unique(dim=0))  # all six pairs of four items
        6
    """

    name = "unord"

    def _over_categories(self, total: int) -> UnordOfCategories:
        return UnordOfCategories(self.samples)
