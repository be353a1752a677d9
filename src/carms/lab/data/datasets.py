"""Sets of images, read into tensors."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from carms.core.checks.options import unknown_name
from carms.lab.data.files import State, default_root, examined, forms, paths, state
from carms.lab.data.missing import MissingData, indented
from carms.lab.data.sources import SOURCES, Source
from carms.lab.extras import needed

__all__ = [
    "NAMES",
    "Dataset",
    "binarised",
    "default_root",
    "load",
    "some_of",
    "source_of",
    "verify",
]

NAMES = tuple(SOURCES)


@dataclass(frozen=True)
class Dataset:
    """Square images ``[n, side * side]``, row by row.

    Pixels are uint8, and value / 255 is the probability of a one.
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    side: int


def binarised(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Ones with probability ``pixels / 255``, exactly, as floats."""
    threshold = torch.randint(
        255, pixels.shape, dtype=torch.uint8, device=pixels.device, generator=generator
    )
    return (threshold < pixels).float()


def some_of(images: Tensor, count: int) -> Tensor:
    """A number of images from everywhere in a set, because some sets are sorted; all if there are
    fewer.

    Examples:
        >>> some_of(torch.arange(10), 4)
        tensor([0, 2, 5, 7])
    """
    if len(images) <= count:
        return images
    return images[torch.arange(count, device=images.device) * len(images) // count]


def load(name: str, root: Path | None = None, *, upright: bool = True) -> Dataset:
    """Read a set of images that is here.

    Args:
        name: one of ``NAMES``. ``"digits"`` comes with scikit-learn and needs no files.
        root: the directory above those of the data sets; ``default_root`` if None.
        upright: False leaves the characters of Omniglot lying as they do in their file, mirrored
            at the diagonal, as the experiments of the paper had them.

    Examples:
        >>> load("digits").train.shape
        torch.Size([1297, 64])
    """
    source = source_of(name)
    if not upright and not source.column_major:
        raise ValueError(f"upright=False is for omniglot, {name} has no other orientation")
    images = _stored(name, source, root) if source.files else _digits()
    if source.column_major and upright:
        images = images.view(-1, source.side, source.side).mT.flatten(1)
    train, valid, test = images.split(list(source.sizes))
    return Dataset(train, valid, test, source.side)


def verify(name: str, root: Path | None = None) -> list[tuple[Path, State]]:
    """Every file of a set of images, and whether it is there and what it should be."""
    source = source_of(name)
    return [(path, state(path, file, source)) for path, file in paths(source, root)]


def source_of(name: str) -> Source:
    """The source of a set of images; an error if there is no such set."""
    if name not in SOURCES:
        raise unknown_name("data set", name, NAMES)
    return SOURCES[name]


def _stored(name: str, source: Source, root: Path | None) -> Tensor:
    files = list(paths(source, root))
    missing = [path for path, _ in files if not path.exists()]
    if missing:
        looked_for = [path.with_name(form) for path in missing for form in forms(path.name)]
        raise MissingData(
            f"{name} is not here. Looked for\n{indented(looked_for)}\n"
            f"Run `carms data fetch {name}`, or set CARMS_DATA to a directory that has "
            f"{source.folder}/, or use --dataset digits, which needs no files."
        )
    parts: list[Tensor] = []
    for path, file in files:
        try:
            parts += examined(path, file, source)
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged: {error}; `carms data fetch {name}` gets a good one"
            ) from error
    return torch.cat(parts)


def _digits() -> Tensor:
    """The 1,797 digits of scikit-learn, in a random order that is always the same."""
    digits = torch.from_numpy(needed("sklearn.datasets").load_digits().data)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(0))
    return (digits[order] * (255 / 16)).round().to(torch.uint8)
