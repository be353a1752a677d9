"""ARMS and DisARM: antithetic estimators for binary variables."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.copulas import Dirichlet
from carms.core.means import less_mean
from carms.core.random import uniform
from carms.core.softmax import normalised
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register

__all__ = ["Arms", "Disarm"]


class Memory(NamedTuple):
    """What a draw of ``arms`` remembers beside its samples.

    Attributes:
        ratio: ``[*batch, D]``, ``p (1 - p)`` divided by the probability that the first of two
            samples is 0 and the second is 1.
    """

    ratio: Tensor


@register("arms")
class Arms(ScoreFunction):
    """Negatively correlated binary samples, corrected by their correlation.

    ``g = 1/(N-1) sum_n (f_n - mean f) z_n / (1 - rho)`` with ``rho`` the correlation of two samples
    under the Dirichlet copula. Unbiased, for any ``f`` of binary variables, N evaluations.

    Args:
        samples: number of samples, at least 2.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021arms]

    Examples:
        >>> import carms
        >>> bits = torch.distributions.Bernoulli(logits=torch.zeros(1000))
        >>> z = carms.make("arms", samples=4).sample(bits).z
        >>> bool(z.mean(0).var() < 0.25 / 4)  # less than of four independent bits
        True
    """

    binary_only = True
    balanced = True
    least_samples = 2

    def __init__(self, samples: int = 8) -> None:
        super().__init__(samples)
        self.copula = Dirichlet(self.samples)

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        zero, one = normalised(probs).unbind(-1)
        u = self.copula.points_unchecked(zero.shape, generator, zero.dtype, zero.device)
        differ = self._one_of_each(zero, one)
        # Where two samples cannot differ there is nothing to correct.
        ratio = torch.where((zero > 0) & (one > 0), zero * one / differ, 0)
        return (u >= zero).long(), Memory(ratio.to(probs.dtype))

    def _one_of_each(self, zero: Tensor, one: Tensor) -> Tensor:
        """The probability that the first of two samples is 0 and the second is 1, from those of 0
        and of 1, with all digits however small they are.
        """
        power = self.samples - 1
        step = -torch.expm1(torch.log1p(-one) / power)
        not_both_zero = -torch.expm1(power * torch.log1p(-2 * step))
        both_zero = self.copula.cdf_unchecked(zero, zero)
        return torch.where(zero < 0.5, zero - both_zero, not_both_zero - one)

    def weights(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return less_mean(fz) * draw.memory.ratio / (self.samples - 1)


@register("disarm", "u2g")
class Disarm(ScoreFunction):
    """Antithetic pairs of binary samples; also called U2G.

    With ``u`` and ``1 - u`` giving ``z`` and ``z'``, a pair gives
    ``g = 1/2 (f - f') (z - z') max(p, 1 - p)``. Unbiased, for any ``f`` of binary variables; N
    evaluations.

    Args:
        samples: number of samples, even; ``samples / 2`` independent pairs are averaged.

    References:
        - Dong, Mnih and Tucker (2020) [dong2020]
        - Yin et al. (2020) [yin2020]

    Examples:
        >>> import carms
        >>> bits = torch.distributions.Bernoulli(logits=torch.zeros(5))
        >>> first, second = carms.make("disarm", samples=2).sample(bits).z
        >>> first + second  # fair coins: always one of each
        tensor([1., 1., 1., 1., 1.])
    """

    binary_only = True
    paired = True
    balanced = True
    least_samples = 2

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        zero = normalised(probs)[..., 0]
        u = uniform((self.samples // 2, *zero.shape), generator, zero.dtype, zero.device)
        indices = torch.stack((u >= zero, 1 - u >= zero)).long()
        differ = indices[0] != indices[1]
        ratio = torch.maximum(zero, 1 - zero) * differ
        return indices.flatten(0, 1), Memory(ratio.to(probs.dtype))

    def weights(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        first, second = fz.unflatten(0, (2, -1))
        half = (first - second) * draw.memory.ratio / self.samples
        return torch.cat((half, -half))
