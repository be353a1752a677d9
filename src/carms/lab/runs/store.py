"""A run is a directory, and survives whatever happens to the process that writes it."""

import json
import os
import platform
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from carms.lab.runs.printable import printable
from carms.lab.runs.reading import read_bounded
from carms.lab.runs.sums import NAME as SUMS
from carms.lab.runs.sums import Sums, sha256

__all__ = ["Checkpoint", "RunDirectory", "write_json"]

KEPT = 2
# Bytes of the largest files that are read.
JSON_LIMIT, METRICS_LIMIT, TENSORS_LIMIT = 2**20, 2**30, 2**32


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped.

    Attributes:
        step: how many steps were done.
        tensors: parameters, states of optimisers and of the random stream.
        config: settings of the run; None where an older version did not store them.
        metrics_size: bytes of ``metrics.jsonl`` that belong to these steps.
        metrics_sha256: checksum of these bytes; None where an older version did not store it.
    """

    step: int
    tensors: dict[str, Tensor]
    config: dict[str, Any] | None
    metrics_size: int
    metrics_sha256: str | None

    def fits(self, metrics: bytes) -> bool:
        """Whether ``metrics.jsonl`` still has the lines of these steps, as they were."""
        own = metrics[: self.metrics_size]
        return len(own) == self.metrics_size and self.metrics_sha256 in (None, sha256(own))


class DamagedError(ValueError):
    """A checkpoint cannot be used, and the one before it can stand in."""


class RunDirectory:
    """``config.json``, ``metrics.jsonl``, ``result.json`` and ``checkpoints/`` under one path.

    Nothing is written but while the directory is ``held``.

    Args:
        path: of the directory, which ``held`` makes if it does not exist.
        config: what the run is. A directory of another run is refused.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._config = dict(config)
        self._checkpoints = path / "checkpoints"
        self._metrics = path / "metrics.jsonl"
        self._refuse_another_run()

    @staticmethod
    def config_of(path: Path) -> dict[str, Any] | None:
        """The settings of the run in a directory; None if there is none."""
        return _read_json(path / "config.json")

    @contextmanager
    def held(self, patience: float = 0.0) -> Iterator[None]:
        """Hold the directory for this run, so that nobody else trains in it meanwhile.

        Args:
            patience: seconds to wait for another process that holds it, before that is an error.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for name in ("lock", "metrics.jsonl", "checkpoints", "tensorboard"):
            if (self.path / name).is_symlink():
                raise ValueError(
                    f"{self.path / name} is a symbolic link, and a run writes nowhere but into "
                    "its own directory"
                )
        lock = self.path / "lock"
        try:
            with FileLock(lock).acquire(patience):
                lock.write_text(f"process {os.getpid()} on {platform.node()}\n")
                self._refuse_another_run()
                if self.config_of(self.path) != self._config:
                    write_json(self.path / "config.json", self._config)
                yield
        except Timeout as error:
            holder = printable(read_bounded(lock, 200).decode(errors="replace").strip())
            raise ValueError(
                f"another process is training {self.path} ({holder or 'it does not say which'})"
            ) from error

    def _refuse_another_run(self) -> None:
        """Settings from which nothing came yet may be replaced."""
        traces = (self._metrics, self.path / "result.json")
        if not self._steps() and not any(map(os.path.lexists, traces)):
            return
        known = self.config_of(self.path)
        if known is None:
            checkpoint = self.last_checkpoint()
            known = checkpoint.config if checkpoint else None
        if known is None:
            raise ValueError(
                f"{self.path} holds a run without its config.json, and no checkpoint says which "
                "settings it had: put config.json back, or take another directory"
            )
        self._compare(known)

    def _compare(self, known: Mapping[str, Any]) -> None:
        changed = [
            f"{name}: {known.get(name)!r} there, {self._config.get(name)!r} now"
            for name in sorted({*known, *self._config})
            if known.get(name) != self._config.get(name)
        ]
        if changed:
            raise ValueError(f"{self.path} holds a run of other settings ({'; '.join(changed)})")

    @property
    def result(self) -> dict[str, Any] | None:
        """What a finished run found out."""
        path = self.path / "result.json"
        data = _read(path, JSON_LIMIT)
        if data is None:
            return None
        try:
            Sums(self.path).check(path.name, sha256(data))
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged: {error}; remove it to evaluate the run again"
            ) from error
        return _parsed(path, data)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json``: the run is over."""
        data = _as_json(result)
        written = {
            "config.json": _read(self.path / "config.json", JSON_LIMIT) or b"",
            "metrics.jsonl": self._lines(),
            "result.json": data,
        }
        write_atomically(self.path / SUMS, Sums.of(written))
        write_atomically(self.path / "result.json", data)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``."""
        lines = self._lines()
        try:
            if os.path.lexists(self.path / "result.json"):
                Sums(self.path).check(self._metrics.name, sha256(lines))
            return [json.loads(line) for line in lines.splitlines()]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self._metrics} is damaged: {error}") from error

    def _lines(self) -> bytes:
        return _read(self._metrics, METRICS_LIMIT) or b""

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        with open(self._metrics, "a", opener=_open_no_link) as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep a checkpoint of the metrics so far and of the tensors; then drop the oldest."""
        with open(self._metrics, "ab", opener=_open_no_link) as file:
            os.fsync(file.fileno())
        metrics = self._lines()
        data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        self._checkpoints.mkdir(exist_ok=True)
        write_atomically(self._tensors(step), data)
        manifest = {
            "step": step,
            "config": self._config,
            "metrics_size": len(metrics),
            "metrics_sha256": sha256(metrics),
        }
        # The manifest comes last: without it there is no checkpoint.
        write_json(self._manifest(step), {**manifest, "sha256": _seal(manifest, data)})
        for old in self._steps()[KEPT:]:
            self._manifest(old).unlink()
            self._tensors(old).unlink(missing_ok=True)

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """That of a step, or else the newest good one; an error if there is none."""
        kept = sorted(self._steps())
        if step is not None and step not in kept:
            known = ", ".join(f"{one:,}" for one in kept) or "none"
            raise ValueError(f"{self.path} has no checkpoint of step {step:,}; it has {known}")
        found = self.last_checkpoint() if step is None else self._checkpoint_at(step)
        if found is None:
            raise ValueError(f"the run in {self.path} has no good checkpoint yet")
        return found

    def last_checkpoint(self) -> Checkpoint | None:
        """The newest good one; a damaged one is named in a warning and passed over."""
        return next(self._good_checkpoints(), None)

    def resume(self) -> Checkpoint | None:
        """The newest good checkpoint whose lines ``metrics.jsonl`` has, None if there is no
        checkpoint; ``metrics.jsonl`` is cut back to it, and whatever is damaged after it moved out
        of the way.
        """
        metrics, found, bereft = self._lines(), None, None
        for one in self._good_checkpoints():
            if one.fits(metrics):
                found = one
                break
            bereft = one
        if bereft is not None:
            damage = f"{self._metrics} is damaged: it has lost what it had at step {bereft.step:,}"
            if found is None:
                raise ValueError(
                    f"{damage}; put it back, or remove {self._checkpoints} to train from the start"
                )
            warnings.warn(f"{damage}; going on from step {found.step:,}", stacklevel=2)
        for step in self._steps():
            if found is None or step > found.step:
                for path in (self._manifest(step), self._tensors(step)):
                    with suppress(FileNotFoundError):
                        path.replace(path.with_name(path.name + ".damaged"))
        size = found.metrics_size if found else 0
        if len(metrics) > size:
            with open(self._metrics, "r+b", opener=_open_no_link) as file:
                file.truncate(size)
        return found

    def _good_checkpoints(self) -> Iterator[Checkpoint]:
        """The newest first."""
        steps = self._steps()
        for step in steps:
            try:
                yield self._checkpoint_at(step)
            except DamagedError as error:
                instead = "using the one before" if step > steps[-1] else "there is none before"
                warnings.warn(f"{error}: {instead}", stacklevel=3)

    def _checkpoint_at(self, step: int) -> Checkpoint:
        """The checkpoint of a step. An error of the system is no damage: the files may be whole."""
        try:
            manifest = _read_json(self._manifest(step))
            data = _read(self._tensors(step), TENSORS_LIMIT)
            if manifest is None or data is None:
                raise ValueError("half of it is missing")
            if manifest.pop("sha256", None) != _seal(manifest, data):
                raise ValueError("its checksum is wrong")
            config, size = manifest.get("config"), manifest["metrics_size"]
            if manifest["step"] != step or type(size) is not int or size < 0:
                raise ValueError(f"it says step {manifest['step']!r}, {size!r} bytes of metrics")
            if not isinstance(config, dict | None):
                raise ValueError(f"its settings are {config!r}")
            found = Checkpoint(step, load(data), config, size, manifest.get("metrics_sha256"))
        except (ValueError, TypeError, KeyError, SafetensorError) as error:
            both = f"{self._manifest(step)} with {self._tensors(step).name}"
            raise DamagedError(f"checkpoint {both} is damaged ({error})") from error
        if found.config is not None:
            self._compare(found.config)
        return found

    def _steps(self) -> list[int]:
        """Steps that have a checkpoint, the newest first."""
        try:
            names = os.listdir(self._checkpoints)
        except FileNotFoundError:
            return []
        found = (re.fullmatch(r"(\d{9}|[1-9]\d{9,17})\.json", name, re.ASCII) for name in names)
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def _tensors(self, step: int) -> Path:
        return self._checkpoints / f"{step:09d}.safetensors"

    def _manifest(self, step: int) -> Path:
        return self._checkpoints / f"{step:09d}.json"


def write_atomically(path: Path, data: bytes) -> None:
    """Write all of a file or nothing; it is on disk when this returns. A link is replaced."""
    partial = path.with_name(path.name + ".partial")
    try:
        # A file that is made anew is nobody's link.
        partial.unlink(missing_ok=True)
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file of JSON atomically."""
    write_atomically(path, _as_json(data))


def _as_json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any] | None:
    """An object, or an error that names the file; None if there is no file."""
    data = _read(path, JSON_LIMIT)
    return None if data is None else _parsed(path, data)


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it is no object")
    return found


def _read(path: Path, limit: int) -> bytes | None:
    """The contents of a file; None if there is no file."""
    try:
        return read_bounded(path, limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(error.errno, f"cannot read {path}: {error.strerror}") from error


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _seal(manifest: Mapping[str, Any], tensors: bytes) -> str:
    """Checksum of a checkpoint. A manifest without settings is of an older version, and its
    checksum of the tensors alone.
    """
    facts = json.dumps(manifest, sort_keys=True).encode() if "config" in manifest else b""
    return sha256(tensors + facts)
