"""Pictures of what a model makes of test images."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import pad

from carms.lab.data.datasets import Dataset, binarised, some_of
from carms.lab.figures.labels import PICTURES, PictureLabel
from carms.lab.models.latent import LatentModel
from carms.lab.runs.writing import write_atomically

__all__ = ["draw_images"]

# Pixels: width of the images, height of the title, and width of the names of rows.
WIDTH, TITLE, NAMES = 800, 44, 110
DPI = 100


def draw_images(
    model: LatentModel, data: Dataset, directory: Path, names: Iterable[str]
) -> list[Path]:
    """Draw the model's pictures of these names as PNG, and return their paths."""
    device = model.mean.device
    stream = torch.Generator(device).manual_seed(0)
    pixels = some_of(data.test, 16)
    # A small test set is shown more than once.
    pixels = pixels[torch.arange(16) % len(pixels)]
    images = binarised(pixels.to(device), stream)
    pictures = model.pictures(images, stream)
    paths = []
    for name in names:
        paths.append(directory / f"{name}.png")
        label = PICTURES[name]
        mosaic = _mosaic(_in_rows(pictures[name].cpu(), label), data.side)
        write_atomically(paths[-1], _with_text(mosaic, label))
    return paths


def _in_rows(images: Tensor, label: PictureLabel) -> Tensor:
    """Put pairs ``[16 * 2, pixels]`` one above the other, where a picture has names of rows."""
    if not label.rows:
        return images
    return images.view(2, 8, 2, -1).transpose(1, 2).flatten(0, 2)


def _mosaic(images: Tensor, side: int) -> Tensor:
    """Arrange ``[32, pixels]`` as one image of four rows, about 800 pixels wide."""
    margin = max(1, side // 14)
    framed = pad(images.view(4, 8, side, side), (margin,) * 4)
    image = framed.transpose(1, 2).flatten(2, 3).flatten(0, 1)
    scale = max(1, WIDTH // image.shape[1])
    return image.repeat_interleave(scale, 0).repeat_interleave(scale, 1)


def _with_text(mosaic: Tensor, label: PictureLabel) -> bytes:
    """PNG of a mosaic below its title; drawn without axes, which would take longer to make."""
    left = NAMES if label.rows else 0
    height, width = mosaic.shape
    size = left + width, height + TITLE
    figure = Figure(figsize=(size[0] / DPI, size[1] / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    figure.figimage(mosaic.numpy(), left, 0, cmap="gray_r", vmin=0, vmax=1)
    figure.text(0.5, 1 - TITLE / 2 / size[1], label.title, size=16, ha="center", va="center")
    for row in range(4 if label.rows else 0):
        middle = (height - (row + 0.5) * height / 4) / size[1]
        name = label.rows[row % 2]
        figure.text((left - 8) / size[0], middle, name, size=16, ha="right", va="center")
    contents = BytesIO()
    figure.savefig(contents, format="png")
    return contents.getvalue()
