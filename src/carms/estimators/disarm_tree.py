"""DisARM for categorical variables, as trees of binary ones."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from carms.core.checks.options import check_choice
from carms.core.checks.tensors import check_memory
from carms.core.dtypes import precise_dtype
from carms.core.random import uniform
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct
from carms.estimators.registry import register

__all__ = ["DisarmTree"]


class Memory(NamedTuple):
    """What a draw of ``disarm-tree`` remembers beside its samples.

    Attributes:
        probs: ``[*batch, D, C]``.
        start: ``[2, N / 2, *batch, D]``, first category of each walker's subtree after the
            two walkers of a pair part.
        end: the category after the last one of that subtree.
    """

    probs: Tensor
    start: Tensor
    end: Tensor


@register("disarm-tree")
class DisarmTree(Direct):
    """Two walkers go down a tree of binary choices, antithetic as long as they are together.

    Every leaf is a category. Where the walkers ``z`` and ``z'`` part, one goes to the subtree A,
    the other to B, of probabilities ``P_A`` and ``P_B``; DisARM at that node and REINFORCE below
    it add up to
    ``g = 1/2 (f - f') (z - z' - min(P_A, P_B) / (P_A + P_B) (p 1_A / P_A - p 1_B / P_B))``,
    and to zero if they never part. With two categories this is DisARM. Unbiased, for any ``f``;
    N evaluations.

    Args:
        samples: number of samples, even; ``samples / 2`` independent pairs are averaged.
        tree: ``"balanced"`` halves the categories, ``"stick-breaking"`` takes one after the other.

    References:
        Dong, Mnih and Tucker (2021) [dong2021]

    Examples:
        >>> import carms
        >>> first, second = carms.make("disarm-tree", samples=2).sample(torch.zeros(100, 4)).indices
        >>> bool(((first < 2) != (second < 2)).all())  # they part at the first, even choice
        True
    """

    paired = True
    least_samples = 2

    def __init__(
        self, samples: int = 8, tree: Literal["balanced", "stick-breaking"] = "balanced"
    ) -> None:
        super().__init__(samples)
        check_choice("tree", tree, ("balanced", "stick-breaking"))
        self.tree = tree

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        indices, subtrees = self._walk(probs, generator)
        return indices.flatten(0, 1), Memory(probs, *subtrees)

    def _walk(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Return the leaves of both walkers of each pair, ``[2, N / 2, *batch, D]``, and the
        subtrees ``[start, end)`` to which they parted, ``[2, 2, N / 2, *batch, D]``.
        """
        categories, pairs = probs.shape[-1], self.samples // 2
        wide = precise_dtype(probs.device)
        check_memory("walkers", (2, pairs, *probs.shape[:-1]), 64, probs.device)
        ends = torch.nn.functional.pad(probs.cumsum(-1, dtype=wide), (1, 0))
        ends = ends.expand(2, pairs, *ends.shape)

        def mass_below(place: Tensor) -> Tensor:
            return ends.gather(-1, place.unsqueeze(-1)).squeeze(-1)

        start = torch.zeros((2, pairs, *probs.shape[:-1]), dtype=torch.long, device=probs.device)
        end = torch.full_like(start, categories)
        subtrees = torch.stack((start, end))
        for _ in range(
            (categories - 1).bit_length() if self.tree == "balanced" else categories - 1
        ):
            together = (start[0] == start[1]) & (end[0] == end[1])
            middle = (start + end + 1) // 2 if self.tree == "balanced" else start + 1
            middle = torch.minimum(middle, end)
            below = mass_below(middle) - mass_below(start)
            whole = mass_below(end) - mass_below(start)
            u = uniform(start.shape, generator, wide, probs.device)
            u = torch.stack((u[0], torch.where(together, 1 - u[0], u[1])))
            # At a leaf the middle is the end, and the walker stays.
            left = (u * whole < below) | (middle == end)
            start, end = torch.where(left, start, middle), torch.where(left, middle, end)
            part = together & (start[0] != start[1])
            subtrees = torch.where(part, torch.stack((start, end)), subtrees)
        return start, subtrees

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        probs, start, end = draw.memory
        z = draw.one_hot(fz.dtype).unflatten(0, (2, -1))
        categories = torch.arange(probs.shape[-1], device=probs.device)
        inside = (categories >= start.unsqueeze(-1)) & (categories < end.unsqueeze(-1))
        within = probs * inside
        mass = within.sum(-1, keepdim=True)
        share = mass.amin(0) / mass.sum(0)
        direction = z - share * within / mass
        first, second = fz.unflatten(0, (2, -1))
        half = 0.5 * (first - second).unsqueeze(-1)
        gradient: Tensor = (half * (direction[0] - direction[1])).mean(0)
        return gradient
