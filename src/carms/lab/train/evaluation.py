"""The log likelihood of a data set."""

from collections.abc import Callable

import torch
from torch import Tensor

from carms.lab.data.datasets import Dataset, binarised
from carms.lab.models.latent import LatentModel

__all__ = ["CHUNK", "OnPart", "evaluate", "mean_bound"]

OnPart = Callable[[int, int], None]
"""Is told the number of images that are done, and the number of all."""

# Number of images that are evaluated at a time.
CHUNK = 50


def mean_bound(
    model: LatentModel,
    pixels: Tensor,
    samples: int,
    seed: int,
    on_images: Callable[[int], None] = lambda count: None,
) -> tuple[float, float]:
    """The mean bound over a data set, with its Monte Carlo standard error. The number of images is
    told after each part of them.
    """
    device = model.mean.device
    stream = torch.Generator(device).manual_seed(seed)
    found: list[Tensor] = []
    for part in pixels.split(CHUNK):
        images = binarised(part.to(device), stream)
        found.append(model.bound(images, samples, stream).double())
        on_images(len(part))
    bounds = torch.cat(found)
    return bounds.mean().item(), (bounds.std() / len(bounds) ** 0.5).item()


def evaluate(
    model: LatentModel,
    data: Dataset,
    samples: int,
    seed: int,
    on_part: OnPart = lambda done, total: None,
) -> dict[str, float]:
    """Log likelihood bounds of the training and the test set."""
    total = len(data.train) + len(data.test)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        on_part(done, total)

    result: dict[str, float] = {}
    for name, pixels in (("train", data.train), ("test", data.test)):
        bound, error = mean_bound(model, pixels, samples, seed, tell)
        result |= {f"{name}_log_likelihood": bound, f"{name}_standard_error": error}
    return result
