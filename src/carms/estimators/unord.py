"""The unordered set estimator: samples without replacement."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory, holds
from carms.core.dtypes import precise_dtype
from carms.estimators.base import Draw
from carms.estimators.families.arrivals import set_weights
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register
from carms.sampling.without_replacement import first_different, stochastic_beam_search

__all__ = ["Unord"]

# Where even the most probable configurations together are rarer than this, samples hardly repeat.
_RARE = 0.1


class Memory(NamedTuple):
    """What a draw of ``unord`` remembers beside its samples.

    Attributes:
        weight: ``w(s)`` of each sample, ``[N, *batch]``.
        second: ``w(s' | s)``, ``[*batch, N, N]``.
    """

    weight: Tensor
    second: Tensor


@register("unord")
class Unord(ScoreFunction):
    """N different configurations of all variables, weighted by how surely each was among them.

    For a set S drawn without replacement, ``w(s) = p(s) P(S - s | s left out) / P(S)``, and
    ``w(s' | s)`` the same after s is left out:
    ``g = sum_s w(s) (f(s) - p(s) f(s) - sum_{s' != s} w(s' | s) f(s')) grad log p(s)``. The value
    is ``sum_s w(s) f(s)``. The probabilities of sets are integrals over the time at which the first
    configuration outside the set would have come, ``P(S) = int e^-t prod_s (1 - e^(-t r(s))) dt``
    with ``r(s) = p(s) / (1 - p(S))``, not sums over permutations. If S is all there is, this is the
    exact gradient. Unbiased, for any ``f``; N evaluations, all distinct if there are N
    configurations.

    Args:
        samples: number of configurations, at least 2.

    References:
        - Kool, van Hoof and Welling (2020) [kool2020]
        - Kool, van Hoof and Welling (2019) [kool2019beams]

    Examples:
        >>> import carms
        >>> draw = carms.make("unord", samples=4).sample(torch.zeros(1, 4))
        >>> draw.indices.flatten().sort().values  # every category once: the gradient is exact
        tensor([0, 1, 2, 3])
    """

    centred = False
    least_samples = 2

    @classmethod
    def usual_samples(cls, categories: int) -> int:
        return min(categories, 7)

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        shape = (*probs.shape[:-2], self.samples, self.samples)
        check_memory("weights of pairs of samples", shape, 16, probs.device)
        log_probs = probs.to(precise_dtype(probs.device)).log()
        # Decided by the probabilities alone: by the samples it would be a bias.
        rare = _RARE / self.samples
        if probs.numel() and holds(lambda: log_probs.amax(-1).sum(-1).amax().exp() < rare):
            beam, log_p, outside = first_different(log_probs, self.samples, generator)
        else:
            beam, log_p, outside = stochastic_beam_search(log_probs, self.samples, generator)
        weight, second = set_weights(log_p, outside)
        missing = self.samples - beam.shape[-2]
        if missing:
            # There are fewer configurations than samples: repeat the first, at no weight.
            beam = torch.cat((beam, beam[..., :1, :].expand(*beam.shape[:-2], missing, -1)), -2)
            weight = torch.nn.functional.pad(weight, (0, missing))
            second = torch.nn.functional.pad(second, (0, missing, 0, missing))
        return beam.movedim(-2, 0).contiguous(), Memory(weight.movedim(-1, 0), second)

    def weights(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        weight, second = draw.memory
        baseline = torch.einsum("...nm,m...d->n...d", second, fz.to(second.dtype))
        return weight.unsqueeze(-1) * (fz - baseline)

    def value(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return (draw.memory.weight.to(fz.dtype) * fz).sum(0)
