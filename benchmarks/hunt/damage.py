"""Files are damaged between two commands, or cannot be read."""

import errno
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hunt.attempts import Attempt, Lab
from hunt.children import Ended, run
from hunt.operations import Operations
from hunt.runs import Undisturbed, snapshot

__all__ = ["deleted", "failing", "flipped", "truncated"]

# Where a run is stopped before its files are damaged, as a share of its operations.
HALFWAY = 0.7
FLIPS = 12

Harm = Callable[[Path], str]
"""Does something to a file, and says what."""


def flipped(lab: Lab) -> Iterator[Attempt]:
    """A single bit of each file is flipped."""
    for number in range(FLIPS):
        yield from _each_file(lab, partial(_flip, number))


def truncated(lab: Lab) -> Iterator[Attempt]:
    """Each file loses its last byte, its second half, or everything."""
    for kept in (-1, 0.5, 0):
        yield from _each_file(lab, partial(_truncate, kept))


def deleted(lab: Lab) -> Iterator[Attempt]:
    """Each file and each directory is deleted."""
    yield from _each_file(lab, _delete, directories=True)


def failing(lab: Lab) -> Iterator[Attempt]:
    """Each operation on a file of a run that goes on fails, once, with EIO or EACCES."""
    for whole in lab.tasks.values():
        stopped = _stopped(whole)
        with TemporaryDirectory() as name:
            folder = Path(name)
            count = Operations(shutil.copytree(stopped, folder / "run"), reading=True)
            run(whole.command(folder / "run"), folder, count)
        for at in range(1, count.seen + 1):
            for number in (errno.EIO, errno.EACCES):
                yield partial(_fail, whole, stopped, at, number)


def _each_file(lab: Lab, harm: Harm, directories: bool = False) -> Iterator[Attempt]:
    """Harm to each file of runs that were stopped, and of runs that are finished."""
    for whole in lab.tasks.values():
        stopped, said = _stopped(whole), _say_all(whole, whole.path)
        for file in _files(stopped, directories):
            yield partial(_harm_stopped, whole, stopped, file, harm)
        for file in _files(whole.path, directories):
            yield partial(_harm_finished, whole, said, file, harm)


def _files(folder: Path, directories: bool) -> list[str]:
    found = [path for path in sorted(folder.rglob("*")) if not path.name.endswith("lock")]
    return [str(path.relative_to(folder)) for path in found if directories or path.is_file()]


def _stopped(whole: Undisturbed) -> Path:
    """The same run, killed somewhere after its middle."""
    path = whole.path.with_name(f"{whole.path.name}-stopped")
    if not path.exists():
        at = int(HALFWAY * whole.operations)
        death = Operations(path, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        run(whole.command(path), path.parent, death)
    return path


def _harm_stopped(
    whole: Undisturbed, stopped: Path, file: str, harm: Harm, folder: Path
) -> str | None:
    """It goes on to the same result, or refuses and leaves everything as it is."""
    path = shutil.copytree(stopped, folder / "run")
    what = f"{whole.path.name}, stopped, {harm(path / file)} {file}"
    before = snapshot(path)
    ended = run(whole.command(path), folder)
    if ended.refused:
        # A lock may appear, and says who held it last.
        before.pop("lock", None)
        after = {name: kind for name, kind in snapshot(path).items() if name in before}
        return None if after == before else f"{what}: refuses, and changes files: {ended}"
    lost = whole.lost(path, ended)
    return lost and f"{what}: {lost}"


def _harm_finished(
    whole: Undisturbed, said: dict[str, str], file: str, harm: Harm, folder: Path
) -> str | None:
    """What reads it says the same as before, or names the file, or refuses."""
    path = shutil.copytree(whole.path, folder / "run")
    what = f"{whole.path.name}, finished, {harm(path / file)} {file}"
    for name, ended, text in _readings(whole, path, folder):
        named = Path(file).name in text + ended.errors
        fine = ended.status == 0 and ended.quiet and (named or text == said[name])
        if not (fine or ended.refused):
            silent = ended.status == 0 and ended.quiet
            return f"{what}: carms {name}: {'silently different' if silent else ended}"
    return None


def _say_all(whole: Undisturbed, path: Path) -> dict[str, str]:
    """What commands say of a finished run."""
    with TemporaryDirectory() as name:
        path = shutil.copytree(path, Path(name) / "run")
        return {name: text for name, _, text in _readings(whole, path, Path(name))}


def _readings(whole: Undisturbed, path: Path, folder: Path) -> Iterator[tuple[str, Ended, str]]:
    """Commands that read a run, how they end, and what they say, wherever the run is."""
    page = folder / "report.html"
    commands = [whole.command(path)]
    if whole.arguments[0] != "rollouts":
        commands += [["evaluate", str(path)], ["report", str(path), "--out", str(page)]]
    for command in commands:
        ended = run(command, folder)
        text = ended.output + (page.read_text() if page.exists() else "")
        yield command[0], ended, text.replace(str(folder), "")


def _fail(whole: Undisturbed, stopped: Path, at: int, number: int, folder: Path) -> str | None:
    path = shutil.copytree(stopped, folder / "run")

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    ended = run(whole.command(path), folder, Operations(path, at, fail, reading=True))
    what = f"{whole.path.name}, {errno.errorcode[number]} at operation {at}"
    if not ended.refused:
        lost = whole.lost(path, ended)
        return lost and f"{what}: {lost}"
    lost = whole.lost(path, run(whole.command(path), folder))
    return lost and f"{what}: then {lost}"


def _flip(seed: int, path: Path) -> str:
    data = bytearray(path.read_bytes())
    place = random.Random(f"{path.name} {seed}").randrange(8 * len(data) or 1)
    if data:
        data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return f"bit {place} flipped in"


def _truncate(share: float, path: Path) -> str:
    size = path.stat().st_size
    left = int(share * size) if share >= 0 else max(0, size - 1)
    os.truncate(path, left)
    return f"{left} of {size} bytes left of"


def _delete(path: Path) -> str:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return "deleted"
