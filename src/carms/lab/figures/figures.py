"""Pictures of runs."""

from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.image import imsave
from torch import Tensor
from torch.nn.functional import pad

from carms.lab.data.datasets import Dataset, some_of
from carms.lab.figures.png import is_whole
from carms.lab.models.latent import LatentModel
from carms.lab.runs.reading import read_bounded
from carms.lab.runs.writing import write_atomically
from carms.lab.train.evaluation import binarised

__all__ = ["PANELS", "TITLES", "colour", "draw_images", "read_picture", "save_figure"]

# Okabe and Ito's colours, told apart by everybody; an estimator has the same one everywhere.
_COLOURS = {
    "loorf": "#000000",
    "carms-s": "#D55E00",
    "carms-t": "#56B4E9",
    "carms-i": "#0072B2",
    "carms-g": "#009E73",
    "unord": "#CC79A7",
    "arsm": "#E69F00",
    "reinforce": "#999999",
}
_SUFFIXES = (".png", ".svg")
# Bytes of a picture of a run.
_LIMIT = 500_000
_OTHERS = ("#8C6D31", "#7B4173", "#637939", "#843C39")

TITLES = {
    "reconstructions": "test image, reconstruction",
    "samples": "samples of the model",
    "completions": "test image, lower half predicted from the upper one",
}

PANELS = (
    ("objective", "objective of the training batches, nats"),
    ("test_bound", "bound of the test set, 10 samples, nats"),
    ("gradient_variance", "variance of the logits' gradient"),
)


def colour(estimator: str) -> str:
    """Of an estimator, in every picture."""
    known = _COLOURS.get(estimator)
    return known or _OTHERS[sum(map(ord, estimator)) % len(_OTHERS)]


def draw_images(model: LatentModel, data: Dataset, directory: Path) -> list[Path]:
    """What the model makes of test images, as PNG."""
    device = model.mean.device
    stream = torch.Generator(device).manual_seed(0)
    pixels = some_of(data.test, 16)
    # A small test set is shown more than once.
    pixels = pixels[torch.arange(16) % len(pixels)]
    images = binarised(pixels.to(device), stream)
    paths = []
    for name, values in model.pictures(images, stream).items():
        paths.append(directory / f"{name}.png")
        mosaic, contents = _mosaic(values.cpu(), data.height, data.width), BytesIO()
        imsave(contents, mosaic.numpy(), format="png", cmap="gray_r", vmin=0, vmax=1)
        write_atomically(paths[-1], contents.getvalue())
    return paths


def read_picture(path: Path) -> bytes | None:
    """The contents of a PNG that is whole; None if there is no such file."""
    try:
        contents = read_bounded(path, _LIMIT)
    except (OSError, ValueError):
        return None
    return contents if is_whole(contents) else None


def _mosaic(images: Tensor, height: int, width: int) -> Tensor:
    """``[32, pixels]`` as one image of four rows, about 800 pixels wide. Drawn by hand: a figure
    with axes would take longer than a short run.
    """
    margin = max(1, width // 14)
    framed = pad(images.view(4, 8, height, width), (margin,) * 4)
    image = framed.transpose(1, 2).flatten(2, 3).flatten(0, 1)
    scale = max(1, 800 // image.shape[1])
    return image.repeat_interleave(scale, 0).repeat_interleave(scale, 1)


def save_figure(figure: Figure, out: Path) -> list[Path]:
    """As PNG and as SVG."""
    out.parent.mkdir(parents=True, exist_ok=True)
    stem = out.with_suffix("") if out.suffix in _SUFFIXES else out
    paths = [stem.with_name(stem.name + suffix) for suffix in _SUFFIXES]
    for path in paths:
        figure.savefig(path, dpi=150)
    plt.close(figure)
    return paths
