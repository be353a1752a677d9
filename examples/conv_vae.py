"""A convolutional autoencoder with categorical latents learns the digits of scikit-learn.

A pixel of these 8 x 8 images counts the inked ones among the 4 x 4 of a finer scan, so the decoder
gives it the binomial distribution of 16 trials. The latent is 12 variables of 8 categories with a
learned prior. Its divergence from the posterior is summed exactly, outside the expectation, so that
a soft sample never needs a probability. The score is a bound on the log likelihood of the last 500
images by 100 hard samples each, whatever the training was. Of the rates 1e-3, 2e-3 and 5e-3 the
second was best for each, of the temperatures 0.5 and 1 the latter, on held-out training images.
Measured: gumbel-softmax -107.5 nats, loorf -120.0, carms-s -120.2; the first leads clearly, by
12.47 +- 0.60 and 12.69 +- 0.21, on 5 of 5 seeds.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from contest import Outcome, Outcomes, compete
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.distributions import OneHotCategorical
from torch.nn.functional import pad, softplus

import carms

VARIABLES, CATEGORIES, SAMPLES, BATCH, INK = 12, 8, 8, 32, 16
RATES = {"carms-s": 2e-3, "loorf": 2e-3, "gumbel-softmax": 2e-3}
OPTIONS = {"gumbel-softmax": {"temperature": 1.0}}


class Autoencoder(nn.Module):
    """Three layers from images to logits ``[*, variables, categories]``, and three back."""

    def __init__(self) -> None:
        super().__init__()
        halve = nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU()
        code = nn.Linear(256, VARIABLES * CATEGORIES), nn.Unflatten(1, (VARIABLES, CATEGORIES))
        self.encoder = nn.Sequential(*halve, nn.Flatten(), *code)
        plan = nn.Linear(VARIABLES * CATEGORIES, 256), nn.Unflatten(1, (64, 2, 2))
        double = nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1)
        self.decoder = nn.Sequential(nn.Flatten(), *plan, nn.ReLU(), *double)
        self.prior = nn.Parameter(torch.zeros(VARIABLES, CATEGORIES))

    def decode(self, z: Tensor) -> Tensor:
        """Logits of the pixels: ``[*, 1, 8, 8]``."""
        return self.decoder(z.flatten(0, -3)).unflatten(0, z.shape[:-2])

    def log_likelihood(self, images: Tensor, z: Tensor) -> Tensor:
        """Binomial log likelihood of each image by each of its samples: ``[N, *batch]``."""
        logits = self.decode(z)
        ways = math.lgamma(INK + 1) - (images + 1).lgamma() - (INK - images + 1).lgamma()
        return (images * logits - INK * softplus(logits) + ways).sum((-3, -2, -1))

    def elbo(self, images: Tensor, estimator: carms.estimators.Estimator) -> Tensor:
        """Bound of each image, whose gradient on the posterior is the estimator's."""
        logits = self.encoder(images / INK)
        excess = logits.log_softmax(-1) - self.prior.log_softmax(-1)
        divergence = (logits.softmax(-1) * excess).sum((-2, -1))
        likelihood = carms.expectation(lambda z: self.log_likelihood(images, z), logits, estimator)
        return likelihood - divergence

    @torch.no_grad()
    def bound(self, images: Tensor, samples: int = 100) -> float:
        """Importance-weighted bound on the log likelihood, mean over images."""
        posterior = OneHotCategorical(logits=self.encoder(images / INK))
        z = posterior.sample((samples,))
        excess = posterior.log_prob(z) - OneHotCategorical(logits=self.prior).log_prob(z)
        weights = self.log_likelihood(images, z) - excess.sum(-1)
        return float((weights.logsumexp(0) - math.log(samples)).mean())


def digits() -> tuple[Tensor, Tensor]:
    """Images ``[*, 1, 8, 8]`` of counts from 0 to 16: to learn from, and to be tested on."""
    images = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1)
    return images[:-500], images[-500:]


def train(estimator: str, seed: int, steps: int) -> Outcome:
    """The bound, and two rows of images: test images reconstructed, and drawn from the prior."""
    torch.manual_seed(seed)
    images, test = digits()
    model = Autoencoder()
    made = carms.make(estimator, samples=SAMPLES, **OPTIONS.get(estimator, {}))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATES[estimator])
    for _ in range(steps):
        batch = images[torch.randint(len(images), (BATCH,))]
        loss = -model.elbo(batch, made).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    z = OneHotCategorical(logits=model.encoder(test[:8] / INK)).sample()
    dream = OneHotCategorical(logits=model.prior).sample((8,))
    rows = model.decode(torch.stack((z, dream))).sigmoid().detach()
    return Outcome(model.bound(test), rows)


def draw(found: Outcomes, out: Path) -> None:
    """Draw real images above those of the first seed of each estimator, with its score."""
    figure, axes = plt.subplots(1 + len(found), 2, figsize=(11, 2.9), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04)
    rows = {"data": digits()[1][:16].view(2, 8, 1, 8, 8) / INK}
    for name, (first, *_) in found.items():
        rows[f"{name}\n{first.score:.1f} nats"] = first.picture
    for pair, (label, strips) in zip(axes, rows.items(), strict=True):
        pair[0].set_ylabel(label, rotation=0, ha="right", va="center")
        for axis, strip in zip(pair, strips.squeeze(2), strict=True):
            line = pad(strip, (1, 1)).transpose(0, 1).flatten(1)
            axis.imshow(line, cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[], frame_on=False)
    axes[0, 0].set_title("test images, and their reconstructions")
    axes[0, 1].set_title("other test images, and samples from the prior")
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    compete(
        __doc__,
        train,
        RATES,
        draw,
        "bound on the log likelihood of a test image, nats",
        steps=550,
        out="conv_vae.png",
    )
