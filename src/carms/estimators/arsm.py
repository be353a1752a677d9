"""ARSM."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory
from carms.core.distinct import distinct
from carms.core.dtypes import precise_dtype
from carms.core.means import less_mean
from carms.core.memo import constant
from carms.core.pairs import pair_index
from carms.estimators.base import Draw
from carms.estimators.families.direct import Direct, uncertain
from carms.estimators.registry import register
from carms.sampling.gumbel import exponentials

__all__ = ["Arsm"]


class Memory(NamedTuple):
    """What a draw of ``arsm`` remembers beside its samples.

    Attributes:
        w: ``[N, *batch, D, C]``, uniform on the simplex.
        place: ``[N swaps, *batch]``: which of the distinct points each pseudo-sample is.
        possible: ``[*batch, D, C]``, which categories are ``uncertain``.
    """

    w: Tensor
    place: Tensor
    possible: Tensor


@register("arsm")
class Arsm(Direct):
    """Swap two of the random numbers behind a sample, and compare the values of ``f``.

    ``w ~ Dirichlet(1, ..., 1)`` gives the sample ``argmin_i w_i exp(-logit_i)``, and with ``w_c``
    and ``w_j`` exchanged the pseudo-sample ``z(c, j)``; then
    ``g[c] = 1/C sum_j (f(z(c, j)) - mean_m f(z(m, j))) (1 - C w_j)``. Most exchanges change
    nothing, and ``f`` is evaluated on distinct pseudo-samples only. Each of them follows the
    distribution, and the value is their mean. Unbiased, for any ``f``; at most
    ``N (C (C - 1) / 2 + 1)`` evaluations.

    Args:
        samples: number of independent draws whose gradients are averaged, at least 1.

    References:
        Yin, Yue and Zhou (2019) [yin2019]

    Examples:
        >>> import carms
        >>> draw = carms.make("arsm", samples=1).sample(torch.zeros(2, 4))
        >>> len(draw.indices) <= 4 * 3 / 2 + 1, len(draw.indices.unique(dim=0)) == len(draw.indices)
        (True, True)
    """

    @classmethod
    def usual_samples(cls, categories: int) -> int:
        return 1

    def evaluations(self, variables: int, categories: int) -> None:
        return None

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        exchanges = probs.shape[-1] * (probs.shape[-1] - 1) // 2 + 1
        shape = (self.samples, *probs.shape, exchanges)
        check_memory("exchanges of categories", shape, 2 * probs.itemsize, probs.device)
        swaps, _ = _swaps(probs.shape[-1], probs.device)
        times = exponentials((self.samples, *probs.shape), probs, generator)
        swapped = times[..., swaps]
        z = (swapped / probs.unsqueeze(-2)).argmin(-1)
        z = z.movedim(-1, 1).flatten(0, 1)
        points, place = distinct(z)
        possible = uncertain(probs)
        w = times / times.sum(-1, keepdim=True)
        return points, Memory(w, place, possible)

    def _gradient(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        w, _, possible = draw.memory
        categories = w.shape[-1]
        _, swap_of = _swaps(categories, w.device)
        values = less_mean(self._all_values(draw, fz)[:, swap_of], dim=1)
        # In double precision, since a GPU may round products in single precision.
        wide = precise_dtype(w.device)
        weights = (1 - categories * w).to(wide)
        gradient = torch.einsum("ncj...d,n...dj->...dc", values.to(wide), weights).to(fz.dtype)
        # The gradient of a certain variable, or of an impossible category, is zero: leave out the
        # noise around it, so that the estimate still adds up to zero.
        noise = gradient.masked_fill(possible, 0).sum(-1, keepdim=True)
        gradient = gradient + noise / possible.sum(-1, keepdim=True).clamp_min(1)
        return gradient * possible / (categories * self.samples)

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return self._all_values(draw, fz.unsqueeze(-1)).mean((0, 1)).squeeze(-1)

    def _all_values(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        """Values ``[N, swaps, *batch, D]``, or 1 for D, at all pseudo-samples."""
        place = draw.memory.place.unsqueeze(-1)
        place = place.expand(*place.shape[:-1], fz.shape[-1])
        values: Tensor = fz.gather(0, place).unflatten(0, (self.samples, -1))
        return values


@constant
def _swaps(categories: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the identity and all exchanges of two categories, ``[swaps, C]``, and which of them
    exchanges c and j, ``[C, C]``.
    """
    first, second = pair_index(categories, device)
    swaps = torch.arange(categories, device=device).repeat(len(first) + 1, 1)
    rows = torch.arange(1, len(first) + 1, device=device)
    swaps[rows, first], swaps[rows, second] = second, first
    which = torch.zeros(categories, categories, dtype=torch.long, device=device)
    which[first, second] = which[second, first] = rows
    return swaps, which
