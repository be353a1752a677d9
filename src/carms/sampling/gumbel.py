"""Gumbel noise, and noise given which category won."""

import torch
from torch import Tensor

from carms.core.random import uniform

__all__ = ["exponentials", "perturbed", "perturbed_given"]


def exponentials(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Independent standard exponentials, strictly positive."""
    return -uniform(shape, generator, like.dtype, like.device).log()


def perturbed(log_probs: Tensor, times: Tensor) -> Tensor:
    """``log_probs`` plus the Gumbel noise of exponentials: the largest entry wins."""
    return log_probs - times.log()


def perturbed_given(log_probs: Tensor, indices: Tensor, times: Tensor) -> Tensor:
    """``perturbed`` given that the categories ``indices [...]`` won, of normalised
    ``log_probs [..., C]`` and independent exponentials ``times [..., C]``.

    The winner arrives at the time of the earliest of all, and every other category after it.
    """
    winner = indices.unsqueeze(-1)
    first = times.gather(-1, winner)
    others = log_probs - torch.log(times + log_probs.exp() * first)
    categories = torch.arange(log_probs.shape[-1], device=log_probs.device)
    return torch.where(categories == winner, -first.log(), others)
