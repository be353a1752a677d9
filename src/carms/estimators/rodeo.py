"""RODEO: control variates from discrete Stein operators."""

import torch
from torch import Tensor, nn

from carms.core.checks.options import MOST_UNITS, whole_number
from carms.core.means import less_mean, mean_of_others
from carms.core.variables import Distribution
from carms.estimators.base import Draw
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.leaves import WithLeaf, samples_with_slopes
from carms.estimators.families.slopes import finite_slopes, slope
from carms.estimators.registry import register

__all__ = ["Rodeo"]


@register("rodeo")
class Rodeo(ControlVariate):
    """Leave-one-out REINFORCE with two control variates, of mean zero by Stein's identity.

    For any function h, ``(A h)(z) = mean_d (sum_c p[d, c] h(z with z_d = c)) - h(z)``, the Gibbs
    operator, has expectation zero. With scalar functions ``h_n`` and ``k_n`` made of the other
    samples' values and derivatives, and the score ``s(z) = z - p``,
    ``g = 1/N sum_n (f_n - mean_{m != n} (f_m + a (A h_m)(z_m))) s(z_n) + b (A [k_n s])(z_n)``.
    Both are one small network of the linear prediction of ``f`` at a point from the other samples,
    and of their mean. The network, ``a`` and ``b`` are parameters, learned on the variance;
    they start at LOORF and have to be trained to be of use. Published for binary variables;
    this is the same for categories. Unbiased whatever they are. N evaluations of a differentiable
    ``f``.

    Args:
        samples: number of samples, at least 2.
        hidden: number of units of the network.

    References:
        Shi et al. (2022) [shi2022]

    Examples:
        >>> import carms
        >>> estimator = carms.make("rodeo", samples=4)  # once, to be trained
        >>> optimiser = torch.optim.Adam(estimator.parameters(), lr=0.01)
        >>> logits = torch.zeros(2, 3, requires_grad=True)
        >>> estimator.expectation(lambda z: z[..., 0].sum(-1).square(), logits).backward()
        >>> optimiser.step()
    """

    learned = True
    stateful = True
    least_samples = 2

    def __init__(self, samples: int = 8, hidden: int = 16) -> None:
        super().__init__(samples)
        hidden = whole_number("hidden", hidden, least=1, most=MOST_UNITS)
        source = torch.Generator().manual_seed(0)
        self.inner = nn.Parameter(torch.randn(3, hidden, generator=source) / 3**0.5)
        self.outer = nn.Parameter(torch.randn(hidden, 2, generator=source) / hidden**0.5)
        self.scales = nn.Parameter(torch.zeros(2))

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        return samples_with_slopes(self, logits, generator)

    def _gradient(self, draw: Draw[WithLeaf], fz: Tensor) -> Tensor:
        probs, leaf = draw.memory
        slopes = finite_slopes(self, slope(self, fz, leaf), probs > 0)
        z, f = leaf.detach(), fz.detach().to(slopes.dtype)
        if not probs.shape[-2]:
            return torch.zeros_like(probs)
        score = z - probs
        # Mean value and slope of the other samples, and the mean of f(z_m) + f'(z_m) (y - z_m).
        value = mean_of_others(f)
        tangent = mean_of_others(slopes)
        here = mean_of_others(f - (slopes * z).sum((-2, -1))) + (tangent * z).sum((-2, -1))
        there = tangent - (tangent * z).sum(-1, keepdim=True) + here[..., None, None]
        at_z = self._network(here, value)
        around = self._network(there, value[..., None, None].expand_as(there))
        stein = (probs.unsqueeze(-1) * around).sum(-2)
        first, second = self.scales.to(f)
        centred = less_mean(fz.detach()).to(f.dtype)
        signal = centred - mean_of_others(centred + first * (stein[..., 0].mean(-1) - at_z[..., 0]))
        moved = self._score_operator(probs, score, around[..., 1], at_z[..., 1])
        gradient: Tensor = (signal[..., None, None] * score + second * moved).mean(0)
        return gradient

    def _network(self, prediction: Tensor, mean: Tensor) -> Tensor:
        """Values ``[..., 2]`` of the functions h and k."""
        inputs = torch.stack((prediction, mean, torch.ones_like(mean)), -1)
        hidden = torch.nn.functional.leaky_relu(inputs @ self.inner.to(inputs))
        return hidden @ self.outer.to(inputs)

    @staticmethod
    def _score_operator(probs: Tensor, score: Tensor, around: Tensor, at_z: Tensor) -> Tensor:
        """The Gibbs operator on a function times the score: ``[N, *batch, D, C]``.

        A step in one variable changes the score of that variable alone.
        """
        weighted = probs * around
        mean = weighted.sum(-1, keepdim=True)
        elsewhere = mean.sum(-2, keepdim=True) - mean
        stepped = elsewhere * score + weighted - mean * probs
        return stepped / probs.shape[-2] - at_z[..., None, None] * score
