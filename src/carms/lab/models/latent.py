"""Models of images with categorical latent variables."""

import math
from abc import ABC, abstractmethod
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from carms.core.one_hot import one_hot
from carms.core.softmax import softmax
from carms.estimators import Estimator
from carms.estimators.base import Objective
from carms.sampling.independent import independent_samples

__all__ = ["LatentModel", "perceptron"]

SLOPE = 0.3
# Number of samples that are decoded at a time, so that the activations fit a processor's cache.
CHUNK = 20
# From this number of categories on, decoding categories is faster than decoding one-hot vectors,
# if no gradient is needed.
MANY = 4


class LatentModel(nn.Module, ABC):
    """D categorical variables of C categories given an image, and pixels given the variables.

    Args:
        shape: ``(D, C)``.
        sizes: widths of the layers of the encoder, from its input to the last before the logits;
            the decoder has the same in reverse order.
        mean: ``[pixels]``, mean of the training set, which the decoder starts from.
        generator: random stream of the initial weights.
    """

    mean: Tensor
    """Mean of the pixels that the encoder sees."""
    prior: nn.Parameter | None
    """Logits ``[D, C]`` of the variables where no image is given, if the model has them."""

    def __init__(
        self,
        shape: tuple[int, int],
        sizes: list[int],
        mean: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.shape = shape
        width = shape[0] * shape[1]
        self.encoder = perceptron([*sizes, width], generator)
        self.decoder = perceptron([width, *reversed(sizes[1:]), len(mean)], generator)
        last = self.decoder[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias.copy_(mean.clamp(0.001, 0.999).logit())

    @abstractmethod
    def logits(self, images: Tensor) -> Tensor:
        """Logits ``[*batch, D, C]`` of the variables, given images ``[*batch, pixels]``."""

    @abstractmethod
    def log_weight(self, images: Tensor, logits: Tensor) -> Objective:
        """The log weight as a function of vectors ``z [N, *batch, D, C]`` or of categories
        ``[N, *batch, D]``. Training maximises its mean over z; evaluation reports the logarithm of
        the mean of its exponential.
        """

    def objective(self, images: Tensor, logits: Tensor, estimator: Estimator) -> Objective:
        """``log_weight`` as it is differentiated in training.

        The derivative of ``log q(z)`` with respect to the logits, ``z`` being fixed, has the mean
        zero over hard samples. It would add noise and nothing else, so the logits are held fixed.
        """
        return self.log_weight(images, logits if estimator.soft else logits.detach())

    @abstractmethod
    def pictures(self, images: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Pictures ``[32, pixels]`` by name, given 16 images."""

    def decode(self, z: Tensor) -> Tensor:
        """Logits of pixels ``[..., pixels]`` from vectors ``z [..., D, C]``, one-hot or not, or
        from categories ``[..., D]``.
        """
        values: Tensor
        first, *others = self.decoder
        assert isinstance(first, nn.Linear)
        variables, categories = self.shape
        # As a matrix: a layer's output is a view otherwise, and changing it in place makes copies.
        if z.is_floating_point():
            values = first((2 * z).sub_(1).view(-1, variables * categories))
        else:
            # The layer of ``2 z - 1`` without a product: as many rows are added as there are
            # variables, each with its share of what does not depend on z.
            share = (first.bias - first.weight.sum(1)) / variables
            rows = torch.add(share.unsqueeze(-1), first.weight, alpha=2).T.contiguous()
            start = torch.arange(0, len(rows), categories, device=z.device)
            values = embedding_bag((z + start).view(-1, variables), rows, mode="sum")
        for layer in others:
            values = layer(values)
        return values.view(*z.shape[: -2 if z.is_floating_point() else -1], -1)

    @torch.no_grad()
    def bound(self, images: Tensor, samples: int, generator: torch.Generator) -> Tensor:
        """``[*batch]``: the logarithm of the mean weight of samples that are drawn in chunks."""
        logits = self.logits(images)
        log_weight = self.log_weight(images, logits)
        probs = softmax(logits)
        total = torch.full(images.shape[:-1], -torch.inf, dtype=logits.dtype, device=logits.device)
        for start in range(0, samples, CHUNK):
            z = independent_samples(probs, min(CHUNK, samples - start), generator)
            if self.shape[1] < MANY:
                z = one_hot(z, self.shape[1], logits.dtype)
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
