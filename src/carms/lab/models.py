"""The discrete variational autoencoder of the paper."""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from carms.estimators.base import Objective, independent_samples
from carms.lab.likelihood import log_likelihood
from carms.one_hot import one_hot
from carms.softmax import log_softmax, softmax

__all__ = ["DiscreteVae"]

HIDDEN = 200
SLOPE = 0.3
# Samples of the bound that are decoded at a time.
CHUNK = 20


class DiscreteVae(nn.Module):
    """Binary pixels from D categorical variables of C categories, with a learned prior.

    Args:
        pixels: of an image.
        shape: ``(D, C)``.
        network: ``"linear"``, one layer each way, or ``"nonlinear"``, two hidden layers of 200.
        mean: ``[pixels]`` of the training set: it centres the encoder's input and is where
            the decoder starts.
        generator: of the initial weights.
    """

    mean: Tensor

    def __init__(
        self,
        pixels: int,
        shape: tuple[int, int],
        network: Literal["linear", "nonlinear"],
        mean: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.shape = shape
        width = shape[0] * shape[1]
        hidden = [HIDDEN, HIDDEN] if network == "nonlinear" else []
        self.encoder = perceptron([pixels, *hidden, width], generator)
        self.decoder = perceptron([width, *hidden, pixels], generator)
        self.prior = nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", mean)
        last = self.decoder[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias.copy_(mean.clamp(0.001, 0.999).logit())

    def logits(self, images: Tensor) -> Tensor:
        """``[*batch, D, C]`` of the variables, given images ``[*batch, pixels]``."""
        found: Tensor = self.encoder(images - self.mean).unflatten(-1, self.shape)
        return found

    def log_weight(self, images: Tensor, logits: Tensor) -> Objective:
        """``log p(x, z) - log q(z | x)`` as a function of ``z [N, *batch, D, C]``: its mean is the
        ELBO, the logarithm of the mean of its exponential the importance-weighted bound.
        """
        log_ratio = log_softmax(self.prior) - log_softmax(logits)

        def of_samples(z: Tensor) -> Tensor:
            pixels = self.decoder(2 * z.flatten(-2) - 1)
            return (z * log_ratio).sum((-2, -1)) + log_likelihood(pixels, images)

        return of_samples

    @torch.no_grad()
    def bound(self, images: Tensor, samples: int, generator: torch.Generator) -> Tensor:
        """``[*batch]``: the importance-weighted bound of ``log p(x)``, in chunks of samples."""
        logits = self.logits(images)
        log_weight = self.log_weight(images, logits)
        probs = softmax(logits)
        total = torch.full(images.shape[:-1], -torch.inf, device=images.device)
        for start in range(0, samples, CHUNK):
            indices = independent_samples(probs, min(CHUNK, samples - start), generator)
            z = one_hot(indices, probs.shape[-1], logits.dtype)
            total = torch.logaddexp(total, log_weight(z).logsumexp(0))
        return total - math.log(samples)


def perceptron(sizes: list[int], generator: torch.Generator) -> nn.Sequential:
    """Dense layers with leaky rectifiers between them, weights after Glorot, biases zero."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.LeakyReLU(SLOPE, inplace=True)]
    return nn.Sequential(*layers[:-1])
