"""Different configurations of categorical variables: draws without replacement."""

import math

import torch
from torch import Tensor

from carms.sampling.gumbel import exponentials
from carms.sampling.independent import independent_samples

__all__ = ["first_different", "stochastic_beam_search"]

# Number of joint categories of a block of variables that is searched at once: larger blocks make
# fewer, larger steps.
_BLOCK = 32


def first_different(
    log_probs: Tensor, count: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw what ``stochastic_beam_search`` draws, faster where configurations hardly repeat.

    Independent samples, each drawn again until it differs from all places before it, are a draw
    without replacement. All repeated places are drawn again at once. A sample that equals an
    earlier place is rightly refused even if that place is drawn again, too: then the place equals
    one before it, so that the value stays taken.
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
    """Draw ``count`` configurations without replacement, or as many as there are, one block of
    variables after the other.

    Args:
        log_probs: ``[*batch, D, C]``.
        count: number of configurations.
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
        # its children. The delay of the other children does not depend on when that was.
        arrival = exponentials((*log_p.shape, joint), own, generator) / own.exp().unsqueeze(-2)
        delay = arrival - arrival.amin(-1, keepdim=True)
        # In logarithms: probabilities of many variables are too small for a float.
        log_arrival = torch.logaddexp(log_time.unsqueeze(-1), delay.log() - log_p.unsqueeze(-1))
        log_arrival = log_arrival.flatten(-2)
        log_arrival = torch.where(child > -torch.inf, log_arrival, torch.inf)
        log_time, chosen = log_arrival.topk(min(count, log_arrival.shape[-1]), -1, largest=False)
        log_p = child.gather(-1, chosen)
        outside = outside + child.exp().scatter(-1, chosen, 0).sum(-1)
        parent = (chosen // joint).unsqueeze(-1).expand(*chosen.shape, beam.shape[-1])
        beam = torch.cat((beam.gather(-2, parent), (chosen % joint).unsqueeze(-1)), -1)
    beam = _digits(beam, categories, size, variables)
    # A configuration that does not exist is replaced by the first one, at probability zero.
    exists = (log_p > -torch.inf).unsqueeze(-1)
    return torch.where(exists, beam, beam[..., :1, :]), log_p, outside


def _joint(block: Tensor) -> Tensor:
    """Joint log probabilities ``[*batch, C^k]`` of k variables ``[*batch, k, C]``."""
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
