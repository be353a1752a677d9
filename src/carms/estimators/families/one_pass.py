"""Slopes of ``f`` from the backward pass of the value itself.

The value is ``sum_n w_n f_n``. Its backward pass therefore brings ``u w_n h_n`` to sample n: the
slope ``h_n``, multiplied by the weight and by the upstream gradient u. The estimate also needs u
and the differences ``f_n - f_0``, which exist only after the samples were made. They arrive as the
gradient of a *carrier*, zeros that are made with the samples: ``weighted_sum`` adds
``carrier * message``, and the gradient of that is ``u * message``.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from carms.core.backward import at_end_of_backward
from carms.core.checks.tensors import holds
from carms.core.dtypes import plain_numerics
from carms.core.transforms import no_transforms
from carms.estimators.families.cross_fit import Past
from carms.estimators.families.trapezoid import Memory, estimate

__all__ = ["OnePass", "weighted_sum"]


def weighted_sum(values: Tensor, carrier: Tensor, weights: Tensor) -> Tensor:
    """``sum_n w_n f_n``, whose backward pass tells `OnePass` the upstream gradient and the values.

    Row 0 of the message is 1, so that the upstream gradient itself arrives there.
    """
    message = (values.detach() - values[0].detach()).to(carrier.dtype)
    message[0].fill_(1)
    value: Tensor = (weights.to(values.dtype) * values + carrier * message).sum(0)
    return value.to(values.dtype)


class OnePass(torch.autograd.Function):
    """One-hot samples and their carrier; the backward pass makes the estimate from their slopes."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, hard: Tensor, maker: object, past: Past, *memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.maker, ctx.past = maker, past
        ctx.save_for_backward(hard, *memory)
        # A copy, since what is saved must not be an output.
        return hard.clone(), torch.zeros_like(Memory(*memory).weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor, carried: Tensor) -> Any:
        hard, *saved = ctx.saved_tensors
        with plain_numerics(hard), no_transforms():
            upstream, memory = carried[0], Memory(*saved)
            if holds(lambda: not upstream.any()):
                # The upstream gradient is zero: the value was not used, or multiplied by zero.
                gradient = torch.zeros_like(memory.probs)
            elif holds(lambda: not math.isfinite(upstream.sum())):
                gradient = torch.full_like(memory.probs, torch.nan)
            else:
                # Where the upstream gradient is 0, values and slopes are unknown: taken as 0, they
                # give the gradient 0.
                values = _finite(carried / upstream)
                values[0].zero_()
                slopes = slopes * _finite(1 / (memory.weights * upstream))[..., None, None]
                found, moments = estimate(ctx.maker, ctx.past, memory, hard, values, slopes)
                at_end_of_backward(lambda: ctx.past.add(moments))
                gradient = found.mul_(upstream[..., None, None])
        return gradient.to(hard.dtype), None, None, None, *[None] * len(saved)


def _finite(values: Tensor) -> Tensor:
    """Replace NaN and infinite values by zero."""
    return torch.nan_to_num(values, 0, 0, 0)
