"""Probabilities of sets drawn without replacement, as integrals over times of arrival."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.memo import constant

__all__ = ["Arrivals", "arrivals", "set_weights"]


def set_weights(log_p: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of the members of a set drawn without replacement.

    Args:
        log_p: ``[*batch, K]`` log probabilities of the members; ``-inf`` for none.
        outside: ``[*batch]``, the probability of all that is not in the set.

    Returns:
        ``w(s) [*batch, K]`` and ``w(s' | s) [*batch, K, K]``, on whose diagonal is ``p(s)``.
    """
    _, arrived, log_weight = arrivals(log_p - outside.log().unsqueeze(-1))
    # A member that does not exist is no factor of the product.
    arrived = torch.where((log_p > -torch.inf).unsqueeze(-2), arrived, 0)
    # Everything relative to the largest value of the integrand: nothing over- or underflows.
    integrand = arrived.sum(-1) + log_weight
    peak, where = integrand.max(-1, keepdim=True)
    at_peak = arrived.gather(-2, where.unsqueeze(-1).expand(*where.shape, arrived.shape[-1]))
    half = ((integrand - peak) / 2).unsqueeze(-1)
    root = half.exp()
    without_one = (half + at_peak - arrived).exp()
    whole = root.square().sum(-2)
    one_out = (root * without_one).sum(-2)
    two_out = without_one.mT @ without_one
    scale = (log_p - at_peak.squeeze(-2)).exp()
    second = scale.unsqueeze(-2) * two_out / one_out.unsqueeze(-1)
    own = torch.eye(log_p.shape[-1], dtype=torch.bool, device=log_p.device)
    return scale * one_out / whole, torch.where(own, log_p.exp().unsqueeze(-1), second)


class Arrivals(NamedTuple):
    """Arrivals of K members by Q times, for integrals ``int_0^inf e^-t . dt``.

    Attributes:
        expected: ``[*batch, Q, K]``, time multiplied by rate.
        arrived: ``[*batch, Q, K]``, log probability that a member has arrived.
        log_weight: ``[Q]``, logarithms of the weights of the times.
    """

    expected: Tensor
    arrived: Tensor
    log_weight: Tensor


def arrivals(log_rates: Tensor) -> Arrivals:
    """Arrivals of members with ``log_rates [*batch, K]``, relative to the rate of all others."""
    log_time, log_weight = _nodes(log_rates.shape[-1], log_rates.dtype, log_rates.device)
    log_expected = log_rates.unsqueeze(-2) + log_time.unsqueeze(-1)
    expected = log_expected.exp()
    arrived = torch.log(-torch.expm1(-expected))
    arrived = torch.where(log_expected < -30, log_expected, arrived)
    return Arrivals(expected, arrived, log_weight)


@constant
def _nodes(members: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Logarithms of times, and of the weights of a sum that stands for ``int_0^inf e^-t . dt``.

    Nearly equal steps in log t: the trapezoidal rule converges exponentially for such integrands,
    whose peak is about ``1 / sqrt(members)`` wide. Early times matter less, and their steps grow.
    """
    step = min(0.25, 0.75 / math.sqrt(members + 1))
    last = math.log(members + 12 * math.sqrt(members) + 30)
    s = torch.arange(last, -9.3, -step, dtype=dtype, device=device)
    growth = 0.15 * torch.exp(-0.4 * s)
    log_time = s - growth / 0.4
    return log_time, math.log(step) + torch.log1p(growth) + log_time - log_time.exp()
