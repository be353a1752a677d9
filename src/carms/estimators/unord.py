"""The unordered set estimator: samples without replacement."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.checks.tensors import check_memory, holds
from carms.core.dtypes import precise_dtype
from carms.core.memo import constant
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register
from carms.sampling.gumbel import exponentials
from carms.sampling.independent import independent_samples

__all__ = ["Unord", "arrivals"]

# Variables are searched in blocks of about so many categories together: fewer, larger steps.
_BLOCK = 32
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

    def __init__(self, samples: int = 8) -> None:
        super().__init__(samples)

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


def first_different(
    log_probs: Tensor, count: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """What ``stochastic_beam_search`` gives, at once where configurations hardly repeat.

    The first different ones of a sequence of independent samples are a draw without replacement. So
    each place is drawn again until it differs from those before it: if one of these changes
    meanwhile, then because its value is held by one still further ahead, and no sample is ever
    refused for a value that does not stay.
    """
    probs = log_probs.exp()
    found = independent_samples(probs, count, generator)
    while True:
        seen = [(found[:place] == found[place]).all(-1).any(0) for place in range(1, count)]
        again = torch.stack((torch.zeros_like(seen[0]), *seen))
        if not again.any():
            break
        others = independent_samples(probs, count, generator)
        found = torch.where(again.unsqueeze(-1), others, found)
    log_p = log_probs.gather(-1, found.movedim(0, -1)).sum(-2)
    return found.movedim(0, -2), log_p, 1 - log_p.exp().sum(-1)


def stochastic_beam_search(
    log_probs: Tensor, count: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """``count`` different configurations in the order of a draw without replacement, or as many as
    there are, block of variables by block.

    Args:
        log_probs: ``[*batch, D, C]``.
        count: how many.
        generator: source of randomness.

    Returns:
        Configurations ``[*batch, K, D]``, their log probabilities ``[*batch, K]``, and the
        probability ``[*batch]`` of all others. One that does not exist has probability 0.
    """
    batch, (variables, categories) = log_probs.shape[:-2], log_probs.shape[-2:]
    size = max(1, int(math.log(_BLOCK, max(2, categories))))
    beam = torch.zeros((*batch, 1, 0), dtype=torch.long, device=log_probs.device)
    log_p = log_time = log_probs.new_zeros(*batch, 1)
    outside = log_probs.new_zeros(batch)
    for block in log_probs.split(size, -2):
        own = _joint(block)
        joint = own.shape[-1]
        child = (log_p.unsqueeze(-1) + own.unsqueeze(-2)).flatten(-2)
        # Each configuration arrives after an exponential time of rate p, a parent with the first of
        # its children; how much later the others come does not depend on when that was.
        arrival = exponentials((*log_p.shape, joint), own, generator) / own.exp().unsqueeze(-2)
        later = arrival - arrival.amin(-1, keepdim=True)
        # In logarithms throughout: of many variables, probabilities are too small for a float.
        late = torch.logaddexp(log_time.unsqueeze(-1), later.log() - log_p.unsqueeze(-1))
        late = late.flatten(-2)
        late = torch.where(child > -torch.inf, late, torch.inf)
        log_time, chosen = late.topk(min(count, late.shape[-1]), -1, largest=False)
        log_p = child.gather(-1, chosen)
        outside = outside + child.exp().scatter(-1, chosen, 0).sum(-1)
        parent = (chosen // joint).unsqueeze(-1).expand(*chosen.shape, beam.shape[-1])
        beam = torch.cat((beam.gather(-2, parent), (chosen % joint).unsqueeze(-1)), -1)
    beam = _digits(beam, categories, size, variables)
    # What does not exist takes the place of what does, with its own probability of zero.
    exists = (log_p > -torch.inf).unsqueeze(-1)
    return torch.where(exists, beam, beam[..., :1, :]), log_p, outside


def _joint(block: Tensor) -> Tensor:
    """Log probabilities ``[*batch, C^k]`` of what k variables ``[*batch, k, C]`` are together."""
    joint = block.new_zeros(*block.shape[:-2], 1)
    for one in block.unbind(-2):
        joint = (joint.unsqueeze(-1) + one.unsqueeze(-2)).flatten(-2)
    return joint


def _digits(blocks: Tensor, categories: int, size: int, variables: int) -> Tensor:
    """``[..., D]`` categories from the numbers ``[..., D / size]`` of blocks of variables."""
    if size == 1:
        return blocks
    # A last block of fewer variables has fewer digits: give it zeros that are cut off again.
    missing = -variables % size
    blocks = torch.cat((blocks[..., :-1], blocks[..., -1:] * categories**missing), -1)
    unit = categories ** torch.arange(size - 1, -1, -1, device=blocks.device)
    return (blocks.unsqueeze(-1) // unit % categories).flatten(-2)[..., :variables]


def set_weights(log_p: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of the members of a set drawn without replacement.

    Args:
        log_p: ``[*batch, K]`` log probabilities of the members; ``-inf`` for none.
        outside: ``[*batch]``, the probability of all that is not in the set.

    Returns:
        ``w(s) [*batch, K]`` and ``w(s' | s) [*batch, K, K]``, on whose diagonal is ``p(s)``.
    """
    _, arrived, log_weight = arrivals(log_p - outside.log().unsqueeze(-1))
    # A product has no factor for what is not there.
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
