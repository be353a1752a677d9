"""Gumbel noise, and noise given which category won."""

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype
from carms.core.random import uniform

__all__ = ["exponentials", "perturbed", "perturbed_given"]


def exponentials(
    shape: tuple[int, ...],
    like: Tensor,
    generator: torch.Generator | None,
    *,
    precise: bool = True,
) -> Tensor:
    """Independent standard exponentials, strictly positive, in the dtype of ``like``.

    Precise ones are made of uniforms in double precision. Those in single precision are multiples
    of 2^-24, with which a category of probability 1e-7 or less would win too rarely.
    """
    dtype = precise_dtype(like.device) if precise else like.dtype
    return uniform(shape, generator, dtype, like.device).log_().neg_().to(like.dtype)


def perturbed(log_probs: Tensor, times: Tensor) -> Tensor:
    """``log_probs`` plus the Gumbel noise of exponentials: the largest entry wins."""
    return log_probs - times.log()


def perturbed_given(log_probs: Tensor, indices: Tensor, times: Tensor) -> Tensor:
    """A sample of ``perturbed(log_probs, times)`` conditioned on its arg max being ``indices``.

    It is made of normalised ``log_probs [..., C]``, ``indices [...]`` and independent exponentials
    ``times [..., C]``. The winner arrives at the time of the earliest of all, and every other
    category after it.
    """
    winner = indices.unsqueeze(-1)
    first = times.gather(-1, winner)
    others = log_probs - torch.log(times + log_probs.exp() * first)
    categories = torch.arange(log_probs.shape[-1], device=log_probs.device)
    return torch.where(categories == winner, -first.log(), others)
