"""Relaxed top-k, soft and straight-through: biased references."""

import torch
from torch import Tensor

from carms.core.checks.options import positive_number
from carms.core.dtypes import computing_dtype
from carms.core.surrogate import first_derivative_only, with_gradient_of
from carms.estimators.families.slopes import check_dependence
from carms.sampling.gumbel import exponentials, perturbed
from carms.subsets.base import Draw, SubsetEstimator, indicator

__all__ = ["Relaxed", "StraightThrough"]


class Relaxed(SubsetEstimator):
    """Replace the top k of noisy logits by a sum of k softmaxes of some temperature.

    Each softmax leaves to the next one what it did not take. ``f`` sees soft subsets whose entries
    add up to k, so that the value is biased as well as the gradient. N evaluations of a
    differentiable ``f``.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 1.
        ordered: must be False, since ``f`` sees soft subsets.
        temperature: towards 0 the bias falls and the variance rises without bound.

    References:
        Xie and Ermon (2019) [xie2019]

    Examples:
        >>> z = Relaxed(size=2, samples=4).sample(torch.zeros(5)).z
        >>> bool((z > 0).all()), bool((z.sum(-1) - 2).abs().max() < 1e-5)  # soft subsets
        (True, True)
    """

    name = "relaxed"
    unbiased = False
    black_box = False
    least_samples = 1

    def __init__(
        self, size: int, samples: int = 8, ordered: bool = False, temperature: float = 0.5
    ) -> None:
        super().__init__(size, samples, ordered)
        self.temperature = positive_number("temperature", temperature)

    def _sample(self, logits: Tensor, generator: torch.Generator | None) -> Draw:
        wide = self._differentiable(logits.to(computing_dtype(logits.dtype)))
        times = exponentials((self.samples, *wide.shape), wide.detach(), generator, precise=False)
        noisy = perturbed(wide, times)
        items = noisy.topk(self.size, -1).indices
        soft = relaxed_top_k(noisy, self.size, self.temperature)
        return Draw(self, logits, items, differentiable=self._seen(soft.to(logits.dtype), items))

    def _differentiable(self, logits: Tensor) -> Tensor:
        return logits

    def _seen(self, soft: Tensor, items: Tensor) -> Tensor:
        return soft

    def _surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        check_dependence(self, fz, draw.differentiable)
        return fz.mean(0)


class StraightThrough(Relaxed):
    """Relaxed top-k in the backward pass only: ``f`` sees the subset itself.

    Biased. N evaluations of a differentiable ``f``.

    Args:
        size: number of items to choose, k.
        samples: number of draws, at least 1.
        ordered: must be False, since ``f`` is differentiated with respect to the subset.
        temperature: of the relaxation that is differentiated.

    References:
        Xie and Ermon (2019) [xie2019]

    Examples:
        >>> z = StraightThrough(size=2, samples=4).sample(torch.zeros(5)).z
        >>> z.unique(), z.sum(-1)
        (tensor([0., 1.]), tensor([2., 2., 2., 2.]))
    """

    name = "straight-through"

    def _differentiable(self, logits: Tensor) -> Tensor:
        # Subsets are given slopes, whose own derivatives mean nothing.
        return first_derivative_only(logits)

    def _seen(self, soft: Tensor, items: Tensor) -> Tensor:
        return with_gradient_of(indicator(items, soft), soft)


def relaxed_top_k(noisy: Tensor, size: int, temperature: float) -> Tensor:
    """Soft subset ``[..., n]`` that adds up to ``size``; towards temperature 0, the top ``size``.

    Examples:
        >>> relaxed_top_k(torch.tensor([3.0, 1.0, 0.0]), 2, temperature=1.0)
        tensor([1.3262, 0.4844, 0.1893])
    """
    warm = noisy / temperature
    total = taken = warm.softmax(-1)
    for _ in range(size - 1):
        warm = warm + _log_rest(warm, taken) / temperature
        taken = warm.softmax(-1)
        total = total + taken
    return total


def _log_rest(warm: Tensor, taken: Tensor) -> Tensor:
    """``log(1 - taken)`` for ``taken = softmax(warm)``, also where that is all but 1."""
    top = warm.argmax(-1, keepdim=True)
    others = warm.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
    of_top = others - warm.logsumexp(-1, keepdim=True)
    # No other than the top one has more than a half.
    return torch.log1p(-taken.clamp_max(0.5)).scatter(-1, top, of_top)
