"""The files of a set of images: where they are, and whether they are what they should be."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from torch import Tensor

from carms.lab.data.formats import unpacked
from carms.lab.data.sources import File, Source
from carms.lab.extras import needed

__all__ = ["State", "default_root", "examined", "forms", "paths", "state"]

State = Literal["good", "missing", "damaged"]


def default_root() -> Path:
    """The directory of the data sets: ``$CARMS_DATA``, or else a cache of this user."""
    given = os.environ.get("CARMS_DATA")
    if not given:
        return Path(needed("pooch").os_cache("carms"))
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise ValueError(f"CARMS_DATA is {given!r}, but there is no such user") from error


def forms(name: str) -> tuple[str, str]:
    """A name and its other form, packed or plain."""
    return name, name.removesuffix(".gz") if name.endswith(".gz") else name + ".gz"


def paths(source: Source, root: Path | None) -> Iterator[tuple[Path, File]]:
    """Each file, with the path where it is or should be."""
    for file in source.files:
        folder = (default_root() if root is None else Path(root)) / source.folder
        candidates = [folder / form for form in forms(file.name)]
        yield next((path for path in candidates if path.exists()), candidates[0]), file


def examined(path: Path, file: File, source: Source) -> tuple[Tensor, ...]:
    """The images of a file, if they are what they should be."""
    expected = file.contents
    contents = unpacked(path, expected.size)
    if expected.sha256 and hashlib.sha256(contents).hexdigest() != expected.sha256:
        raise ValueError("its SHA-256 is not that of the original")
    images = file.read(contents)
    found = [list(part.shape) for part in images]
    shapes = [[count, source.side**2] for count in file.counts]
    if found != shapes:
        raise ValueError(f"it has images of shape {found}, expected {shapes}")
    return images


def state(path: Path, file: File, source: Source) -> State:
    """Whether the file at a path is good, missing or damaged."""
    if not path.exists():
        return "missing"
    try:
        examined(path, file, source)
    except (OSError, ValueError):
        return "damaged"
    return "good"
