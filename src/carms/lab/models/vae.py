"""The discrete variational autoencoder of the paper."""

import torch
from torch import Tensor, nn

from carms.core.softmax import log_softmax
from carms.estimators.base import Objective
from carms.lab.models.latent import LatentModel
from carms.lab.models.likelihood import log_likelihood

__all__ = ["DiscreteVae"]

HIDDEN = [200, 200]


class DiscreteVae(LatentModel):
    """Binary pixels from categorical variables with a learned prior.

    Args:
        shape: ``(D, C)``.
        network: ``"linear"``, one layer each way, or ``"nonlinear"``, with two hidden layers of
            200.
        mean: ``[pixels]``, mean of the training set: the encoder subtracts it from its input,
            and the decoder starts from it.
        generator: random stream of the initial weights.
    """

    prior: nn.Parameter

    def __init__(
        self, shape: tuple[int, int], network: str, mean: Tensor, generator: torch.Generator
    ) -> None:
        hidden = HIDDEN if network == "nonlinear" else []
        super().__init__(shape, [len(mean), *hidden], mean, generator)
        self.prior = nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", mean)

    def logits(self, images: Tensor) -> Tensor:
        found: Tensor = self.encoder(images - self.mean).unflatten(-1, self.shape)
        return found

    def log_weight(self, images: Tensor, logits: Tensor) -> Objective:
        """``log p(x, z) - log q(z | x)``: its mean is the ELBO."""
        log_ratio = log_softmax(self.prior) - log_softmax(logits)

        def of_samples(z: Tensor) -> Tensor:
            likelihood = log_likelihood(self.decode(z), images)
            if z.is_floating_point():
                return (z * log_ratio).sum((-2, -1)) + likelihood
            return log_ratio.gather(-1, z.movedim(0, -1)).sum(-2).movedim(-1, 0) + likelihood

        return of_samples

    @torch.no_grad()
    def pictures(self, images: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        best = self.logits(images).argmax(-1)
        probs = self.prior.softmax(-1)
        drawn = torch.multinomial(probs, 32, replacement=True, generator=generator).T
        again, new = (self.decode(z).sigmoid() for z in (best, drawn))
        return {"reconstructions": torch.stack((images, again), 1).flatten(0, 1), "samples": new}
