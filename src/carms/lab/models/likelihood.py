"""The log likelihood of binary images, in as few passes over the pixels as possible."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

__all__ = ["log_likelihood"]


def log_likelihood(pixels: Tensor, images: Tensor) -> Tensor:
    """Log likelihood ``[N, *batch]`` of ``images [*batch, P]``, zeros and ones, given the logits
    ``pixels``.

    Examples:
        >>> log_likelihood(torch.zeros(1, 2, 3), torch.ones(2, 3))
        tensor([[-2.0794, -2.0794]])
    """
    sign = (2 * images).sub_(1)
    found: Tensor = _LogLikelihood.apply(pixels.to(images.dtype), sign)  # type: ignore[no-untyped-call]
    return found


class _LogLikelihood(torch.autograd.Function):
    """``-sum log(1 + exp(-sign * pixels))``: the backward pass needs the exponentials anyway,
    powers of two are faster than those of e, and the logarithm of the product of eight costs an
    eighth of theirs.
    """

    @staticmethod
    def forward(ctx: Any, pixels: Tensor, sign: Tensor) -> Tensor:
        # One over the probability of each pixel as it is.
        inverse = (pixels * (sign * -math.log2(math.e))).exp2_().add_(1)
        ctx.save_for_backward(pixels, sign, inverse)
        together = math.gcd(inverse.shape[-1], 8)
        product: Tensor = inverse.unflatten(-1, (together, -1)).prod(-2)
        if product.amax().isinf():
            # Too large; the logarithm is not.
            return logsigmoid(pixels * sign).sum(-1)
        return -product.log().sum(-1)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        pixels, sign, inverse = ctx.saved_tensors
        slope = sign * upstream[0].unsqueeze(-1)
        if torch.is_grad_enabled():
            # To be differentiated once more, so it must be made of the pixels themselves.
            return slope * (-pixels * sign).sigmoid(), None
        return slope.addcdiv_(slope, inverse, value=-1), None
