"""A run is a directory, and survives whatever happens to the process that writes it."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

__all__ = ["Checkpoint", "RunDirectory", "write_json"]

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped.

    Attributes:
        step: how many steps were done.
        tensors: parameters, states of optimisers and of the random stream.
        metrics_size: bytes of ``metrics.jsonl`` that belong to these steps.
    """

    step: int
    tensors: dict[str, Tensor]
    metrics_size: int


class RunDirectory:
    """``config.json``, ``metrics.jsonl``, ``result.json`` and ``checkpoints/`` under one path.

    Args:
        path: of the directory; made if it does not exist.
        config: what the run is. A directory of another run is refused.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._checkpoints = path / "checkpoints"
        known = self.config_of(path)
        if known is None or (known != config and not self._begun()):
            self._checkpoints.mkdir(parents=True, exist_ok=True)
            write_json(path / "config.json", config)
        elif known != config:
            changed = [
                f"{name}: {known.get(name)!r} there, {config.get(name)!r} now"
                for name in sorted({*known, *config})
                if known.get(name) != config.get(name)
            ]
            raise ValueError(f"{path} holds a run of other settings ({'; '.join(changed)})")

    @staticmethod
    def config_of(path: Path) -> dict[str, Any] | None:
        """The settings of the run in a directory; None if there is none."""
        return _read_json(path / "config.json")

    def _begun(self) -> bool:
        """Whether there is anything in the directory that would be lost."""
        return any(self.path.glob("metrics.jsonl")) or bool(self._steps())

    @contextmanager
    def held(self, patience: float = 0.0) -> Iterator[None]:
        """Nobody else trains the run meanwhile; an error if somebody does for that many seconds."""
        lock = FileLock(self.path / "lock")
        try:
            with lock.acquire(patience):
                yield
        except Timeout as error:
            raise ValueError(f"another process is training {self.path}") from error

    @property
    def result(self) -> dict[str, Any] | None:
        """What a finished run found out."""
        return _read_json(self.path / "result.json")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json``: the run is over."""
        write_json(self.path / "result.json", result)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text().splitlines()]
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep a checkpoint of the metrics so far and of the tensors; then drop the oldest."""
        metrics = self.path / "metrics.jsonl"
        size = 0
        if metrics.exists():
            with metrics.open("rb") as file:
                os.fsync(file.fileno())
            size = metrics.stat().st_size
        data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        write_atomically(self._tensors(step), data)
        manifest = {
            "step": step,
            "sha256": hashlib.sha256(data).hexdigest(),
            "metrics_size": size,
        }
        # The manifest comes last: without it there is no checkpoint.
        write_json(self._manifest(step), manifest)
        for old in self._steps()[KEPT:]:
            self._manifest(old).unlink()
            self._tensors(old).unlink(missing_ok=True)

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """That of a step, or else the newest good one; an error if there is none."""
        kept = sorted(self._steps())
        if step is not None and step not in kept:
            known = ", ".join(f"{one:,}" for one in kept) or "none"
            raise ValueError(f"{self.path} has no checkpoint of step {step:,}; it has {known}")
        found = self.last_checkpoint() if step is None else self._read(step)
        if found is None:
            raise ValueError(f"the run in {self.path} has no good checkpoint yet")
        return found

    def last_checkpoint(self) -> Checkpoint | None:
        """The newest good one; a damaged one is named in a warning and passed over."""
        return next(self._good_checkpoints(), None)

    def resume(self) -> Checkpoint | None:
        """The ``last_checkpoint``; ``metrics.jsonl`` is cut back to it, and whatever is damaged
        after it moved out of the way.
        """
        found = self.last_checkpoint()
        for step in self._steps():
            if found is None or step > found.step:
                for path in (self._manifest(step), self._tensors(step)):
                    if path.exists():
                        path.replace(path.with_name(path.name + ".damaged"))
        metrics = self.path / "metrics.jsonl"
        if metrics.exists():
            _cut(metrics, found.metrics_size if found else 0)
        return found

    def _good_checkpoints(self) -> Iterator[Checkpoint]:
        steps = self._steps()
        for step in steps:
            try:
                yield self._read(step)
            except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
                instead = "using the one before" if step > steps[-1] else "there is none before"
                warnings.warn(
                    f"checkpoint {self._tensors(step)} is damaged ({error}): {instead}",
                    stacklevel=3,
                )

    def _read(self, step: int) -> Checkpoint:
        manifest = _read_json(self._manifest(step)) or {}
        data = self._tensors(step).read_bytes()
        if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
            raise ValueError(f"the checksum of {self._tensors(step)} is wrong")
        return Checkpoint(manifest["step"], load(data), manifest["metrics_size"])

    def _steps(self) -> list[int]:
        """Of all checkpoints, the newest first."""
        names = self._checkpoints.glob("*.json")
        return sorted((int(name.stem) for name in names if name.stem.isdigit()), reverse=True)

    def _tensors(self, step: int) -> Path:
        return self._checkpoints / f"{step:09d}.safetensors"

    def _manifest(self, step: int) -> Path:
        return self._checkpoints / f"{step:09d}.json"


def write_atomically(path: Path, data: bytes) -> None:
    """All of it or nothing, on disk when this returns."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    try:
        partial.replace(path)
    except OSError:
        partial.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read_json(path: Path) -> dict[str, Any] | None:
    """An object, or an error that names the file; None if there is no file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it is no object")
    return found


def _cut(lines: Path, size: int) -> None:
    """To so many bytes; what is shorter has lost lines, and ends with its last whole one."""
    if lines.stat().st_size < size:
        warnings.warn(f"{lines} is damaged: it is shorter than it was", stacklevel=4)
        size = lines.read_bytes().rfind(b"\n") + 1
    os.truncate(lines, size)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Atomically."""
    write_atomically(path, (json.dumps(data, indent=2) + "\n").encode())
