"""The directory of a run, which survives whatever happens to the process that writes it."""

import json
import os
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import Tensor

from carms.lab.runs.checkpoints import Checkpoint, Checkpoints
from carms.lab.runs.printable import printable
from carms.lab.runs.reading import OBJECT_LIMIT, read_bounded, read_if_there
from carms.lab.runs.records import read_config, read_lines, read_raw_metrics, read_raw_result
from carms.lab.runs.sums import NAME as SUMS
from carms.lab.runs.sums import Sums
from carms.lab.runs.writing import as_json, open_no_link, write_atomically, write_json

__all__ = ["HeldRunError", "RunDirectory"]


class HeldRunError(ValueError):
    """Another process is training the run."""


class RunDirectory:
    """``config.json``, ``metrics.jsonl``, ``result.json`` and ``checkpoints/`` under one path.

    Files are written only while the directory is ``held``.

    Args:
        path: the directory, which ``held`` makes if it does not exist.
        config: settings of the run. A directory of another run is refused.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file, and a run is written into a directory")
        self.path = path
        self._config = dict(config)
        self._checkpoints = Checkpoints(path / "checkpoints")
        self._metrics = path / "metrics.jsonl"
        self._refuse_another_run()

    @contextmanager
    def held(self, patience: float = 0.0) -> Iterator[None]:
        """Hold the directory for this run, so that no other process trains in it meanwhile.

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
                with open(lock, "w", opener=open_no_link) as file:
                    file.write(f"process {os.getpid()} on {platform.node()}\n")
                self._refuse_another_run()
                if read_config(self.path) != self._config:
                    write_json(self.path / "config.json", self._config)
                yield
        except Timeout as error:
            holder = printable(read_bounded(lock, 200).decode(errors="replace").strip())
            raise HeldRunError(
                f"another process is training {self.path} ({holder or 'it does not say which'})"
            ) from error

    def _refuse_another_run(self) -> None:
        """Raise if the directory holds a run of other settings, of which there are results."""
        traces = (self._metrics, self.path / "result.json")
        if not self._checkpoints.steps() and not any(map(os.path.lexists, traces)):
            return
        known = read_config(self.path)
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
            raise ValueError(
                f"{self.path} holds a run of other settings ({'; '.join(changed)}): take another "
                "directory, or the settings that it has"
            )

    @property
    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` has; None if the run is not finished."""
        return read_raw_result(self.path)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json``, which marks the run as finished."""
        data = as_json(result)
        written = {
            "config.json": read_if_there(self.path / "config.json", OBJECT_LIMIT) or b"",
            "metrics.jsonl": read_lines(self.path),
            "result.json": data,
        }
        write_atomically(self.path / SUMS, Sums.of(written))
        write_atomically(self.path / "result.json", data)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``."""
        return read_raw_metrics(self.path)

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        with open(self._metrics, "a", opener=open_no_link) as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep a checkpoint of the metrics so far and of the tensors; then drop the oldest."""
        with open(self._metrics, "ab", opener=open_no_link) as file:
            os.fsync(file.fileno())
        self._checkpoints.save(step, tensors, self._config, read_lines(self.path))

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """The checkpoint of a step, or else the newest good one; an error if there is none."""
        kept = sorted(self._checkpoints.steps())
        if step is not None and step not in kept:
            known = ", ".join(f"{one:,}" for one in kept) or "none"
            raise ValueError(f"{self.path} has no checkpoint of step {step:,}; it has {known}")
        if step is not None:
            return self._own(self._checkpoints.at(step))
        found = self.last_checkpoint()
        if found is None:
            raise ValueError(f"the run in {self.path} has no good checkpoint")
        return found

    def last_checkpoint(self) -> Checkpoint | None:
        """The newest good checkpoint; a warning names each damaged one that is passed over."""
        return next(self._good_checkpoints(), None)

    def _good_checkpoints(self) -> Iterator[Checkpoint]:
        """The good checkpoints, the newest first."""
        return map(self._own, self._checkpoints.good())

    def _own(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint, if it is of this run."""
        self._compare(checkpoint.config)
        return checkpoint

    def resume(self) -> Checkpoint | None:
        """The newest good checkpoint whose lines ``metrics.jsonl`` has; None if there is none.

        ``metrics.jsonl`` is cut back to it, and damaged checkpoints after it are set aside.
        """
        metrics, found, unmatched = read_lines(self.path), None, None
        for one in self._good_checkpoints():
            if one.fits(metrics):
                found = one
                break
            unmatched = one
        if unmatched is not None:
            damage = (
                f"{self._metrics} is damaged: it has lost what it had at step {unmatched.step:,}"
            )
            if found is None:
                raise ValueError(
                    f"{damage}; put it back, or remove {self._checkpoints.directory} to train from "
                    "the start"
                )
            warnings.warn(f"{damage}; going on from step {found.step:,}", stacklevel=2)
        for step in self._checkpoints.steps():
            if found is None or step > found.step:
                self._checkpoints.set_aside(step)
        size = found.metrics_size if found else 0
        if len(metrics) > size:
            with open(self._metrics, "r+b", opener=open_no_link) as file:
                file.truncate(size)
        return found
