"""Structured prediction: the lower half of an image, given the upper half."""

import torch
from torch import Tensor

from carms.estimators.base import Objective
from carms.lab.models.latent import LatentModel
from carms.lab.models.likelihood import log_likelihood

__all__ = ["Completion"]

HIDDEN = [200]


class Completion(LatentModel):
    """Pixels of the lower half from categorical variables that are drawn given the upper half.

    Training maximises ``E log p(lower | z)``; evaluation reports the log likelihood,
    ``log E p(lower | z)``.

    Args:
        shape: ``(D, C)``.
        network: ``"linear"``, one layer each way, or ``"nonlinear"``, with a hidden layer of 200.
        mean: ``[pixels]``, mean of the training set: the encoder subtracts it from its input,
            and the decoder starts from it.
        generator: random stream of the initial weights.
    """

    def __init__(
        self, shape: tuple[int, int], network: str, mean: Tensor, generator: torch.Generator
    ) -> None:
        hidden = HIDDEN if network == "nonlinear" else []
        upper, lower = mean.chunk(2)
        super().__init__(shape, [len(upper), *hidden], lower, generator)
        self.prior = None
        self.register_buffer("mean", upper)

    def logits(self, images: Tensor) -> Tensor:
        upper, _ = images.chunk(2, -1)
        found: Tensor = self.encoder(upper - self.mean).unflatten(-1, self.shape)
        return found

    def log_weight(self, images: Tensor, logits: Tensor) -> Objective:
        """``log p(lower | z)``."""
        _, lower = images.chunk(2, -1)
        return lambda z: log_likelihood(self.decode(z), lower)

    @torch.no_grad()
    def pictures(self, images: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        upper, _ = images.chunk(2, -1)
        best = self.logits(images).argmax(-1)
        completed = torch.cat((upper, self.decode(best).sigmoid()), -1)
        return {"completions": torch.stack((images, completed), 1).flatten(0, 1)}
