"""Pictures of runs."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.ticker import EngFormatter, MaxNLocator
from torch import Tensor
from torch.nn.functional import pad

from carms.lab.data import Dataset
from carms.lab.evaluation import binarised
from carms.lab.latent import LatentModel
from carms.lab.store import RunDirectory

__all__ = ["PANELS", "TITLES", "colour", "draw_curves", "draw_images", "save_figure"]

# Okabe and Ito's colours, told apart by everybody; an estimator has the same one everywhere.
_COLOURS = {
    "loorf": "#000000",
    "carms-s": "#D55E00",
    "carms-i": "#0072B2",
    "carms-g": "#009E73",
    "unord": "#CC79A7",
    "arsm": "#E69F00",
    "reinforce": "#999999",
}
_OTHERS = ("#56B4E9", "#8C6D31", "#7B4173", "#637939", "#843C39")

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


def draw_curves(runs: Sequence[Path], out: Path) -> list[Path]:
    """Metrics over steps: a line for each estimator, a band where it has several seeds."""
    groups: dict[str, list[RunDirectory]] = defaultdict(list)
    for path in runs:
        config = RunDirectory.config_of(path)
        assert config is not None
        groups[config["estimator"]].append(RunDirectory(path, config))
    panels = [
        panel
        for panel in PANELS
        if any(panel[0] in row for g in groups.values() for r in g for row in r.metrics)
    ]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.6 * len(panels), 3.8), layout="constrained", squeeze=False
    )
    for axis, (name, label) in zip(axes[0], panels, strict=True):
        for estimator, group in groups.items():
            by_step: dict[int, list[float]] = defaultdict(list)
            for run in group:
                for row in run.metrics:
                    if name in row:
                        by_step[row["step"]].append(row[name])
            if not by_step:
                continue
            steps = sorted(by_step)
            values = [torch.tensor(by_step[step]).double() for step in steps]
            middle = [value.mean().item() for value in values]
            axis.plot(steps, middle, color=colour(estimator), label=estimator)
            if len(group) > 1:
                low = [value.min().item() for value in values]
                high = [value.max().item() for value in values]
                axis.fill_between(steps, low, high, color=colour(estimator), alpha=0.15, lw=0)
        axis.set(xlabel="step", ylabel=label)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        if name == "gradient_variance":
            axis.set_yscale("log")
    axes[0, 0].legend(frameon=False)
    return save_figure(figure, out)


def draw_images(model: LatentModel, data: Dataset, directory: Path) -> list[Path]:
    """What the model makes of test images, as PNG."""
    device = model.mean.device
    stream = torch.Generator(device).manual_seed(0)
    images = binarised(data.test[:16].to(device), stream)
    paths = []
    for name, values in model.pictures(images, stream).items():
        paths.append(directory / f"{name}.png")
        mosaic = _mosaic(values.cpu(), data.height, data.width)
        imsave(paths[-1], mosaic.numpy(), cmap="gray_r", vmin=0, vmax=1)
    return paths


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
    paths = [out.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    plt.close(figure)
    return paths
