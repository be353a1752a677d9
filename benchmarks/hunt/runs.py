"""The small runs that faults befall, and whether two directories hold the same."""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from hunt.children import Ended, run
from hunt.operations import Operations

__all__ = ["SETTINGS", "TASKS", "Undisturbed", "differences", "flags", "snapshot", "undisturbed"]

SETTINGS = {
    "dataset": "digits",
    "network": "linear",
    "categories": 3,
    "latents": 4,
    "batch": 20,
    "steps": 12,
    "log_every": 4,
    "eval_every": 4,
    "eval_samples": 2,
    "checkpoint_every": 4,
}


def flags(settings: dict[str, object]) -> list[str]:
    """Settings as they are typed in a shell."""
    return [
        word
        for name, value in settings.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


ROLLOUTS = {"methods": "carms", "seeds": 1, "steps": 2, "samples": 2, "prompts": 2, "log_every": 1}
TASKS = {
    "vae": ["vae", *flags(SETTINGS)],
    "complete": ["complete", *flags(SETTINGS)],
    "learned": ["vae", "--estimator", "relax", *flags(SETTINGS)],
    "rollouts": ["rollouts", *flags(ROLLOUTS), "--workers", "1"],
}


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing befell.

    Attributes:
        arguments: its command, without the directory.
        path: its directory.
        operations: the number of operations on files that changed something in it.
        seconds: how long it took.
    """

    arguments: tuple[str, ...]
    path: Path
    operations: int
    seconds: float

    def command(self, out: Path) -> list[str]:
        """The same for another directory."""
        return [*self.arguments, "--out", str(out)]

    def lost(self, out: Path, ended: Ended) -> str | None:
        """Why a command that ended in this way is not what it should be; None if it is."""
        if ended.status != 0 or not ended.quiet:
            return str(ended)
        return differences(self.path, out)


def undisturbed(arguments: list[str], path: Path) -> Undisturbed:
    """Run a command with nothing in its way."""
    count = Operations(path)
    started = time.monotonic()
    ended = run([*arguments, "--out", str(path)], path.parent, count)
    seconds = time.monotonic() - started
    if ended.status != 0:
        raise RuntimeError(f"carms {' '.join(arguments)}: {ended}")
    return Undisturbed(tuple(arguments), path, count.seen, seconds)


def snapshot(folder: Path) -> dict[str, str]:
    """The kind of each file, and what is in it; links are not followed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = f"mode {path.lstat().st_mode:o}"
    return found


def differences(expected: Path, found: Path) -> str | None:
    """Which files of a directory are not as in the one it should equal; None if all are.

    TensorBoard's files tell the time, locks nothing, and a run that was asked to stop has kept
    other checkpoints than the last. More files than expected do no harm.
    """
    files = [path for path in expected.rglob("*") if path.is_file() and path.name != "lock"]
    kept = sorted(path for path in files if path.parent.name == "checkpoints")
    older = [path for path in kept if path.name.split(".")[0] != kept[-1].name.split(".")[0]]
    wrong = [
        str(path.relative_to(expected))
        for path in files
        if path not in older
        and path.parent.name != "tensorboard"
        and _content(path) != _content(found / path.relative_to(expected))
    ]
    return f"different: {', '.join(sorted(wrong))}" if wrong else None


def _content(path: Path) -> object:
    """What is in a file: of JSON the values, of all else the bytes."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        return json.loads(data) if path.suffix == ".json" else data
    except (ValueError, RecursionError):
        return data
