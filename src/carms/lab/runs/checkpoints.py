"""Checkpoints of a run: written, read back, and checked."""

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from carms.lab.runs.reading import read_if_there, read_object
from carms.lab.runs.sums import sha256
from carms.lab.runs.writing import write_atomically, write_json

__all__ = ["Checkpoint", "Checkpoints"]

# The number of checkpoints that are kept.
KEPT = 2
# The largest file of tensors, in bytes, that is read.
TENSORS_LIMIT = 2**32


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped.

    Attributes:
        step: number of steps that were done.
        tensors: parameters, states of optimisers and of the random stream.
        config: settings of the run.
        metrics_size: number of bytes of ``metrics.jsonl`` that belong to these steps.
        metrics_sha256: checksum of these bytes.
        threads: number of threads of torch with which it was trained; None if it is unknown.
    """

    step: int
    tensors: dict[str, Tensor]
    config: dict[str, Any]
    metrics_size: int
    metrics_sha256: str
    threads: int | None = None

    def fits(self, metrics: bytes) -> bool:
        """Whether ``metrics.jsonl`` still has the lines of these steps, as they were."""
        own = metrics[: self.metrics_size]
        return len(own) == self.metrics_size and self.metrics_sha256 == sha256(own)


class DamagedError(ValueError):
    """A checkpoint cannot be used, and the one before it can take its place."""


class Checkpoints:
    """The directory of the checkpoints of a run: a manifest and a file of tensors for each.

    Args:
        directory: where they are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, the newest first."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        found = (re.fullmatch(r"(\d{9}|[1-9]\d{9,17})\.json", name, re.ASCII) for name in names)
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def save(
        self, step: int, tensors: Mapping[str, Tensor], config: Mapping[str, Any], metrics: bytes
    ) -> None:
        """Keep a checkpoint of the tensors and of the metrics so far; then drop the oldest."""
        data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        self.directory.mkdir(exist_ok=True)
        write_atomically(self._tensors(step), data)
        manifest = {
            "step": step,
            "config": dict(config),
            "metrics_size": len(metrics),
            "metrics_sha256": sha256(metrics),
            "threads": torch.get_num_threads(),
        }
        # The manifest comes last: without it there is no checkpoint.
        write_json(self._manifest(step), {**manifest, "sha256": seal(manifest, data)})
        for old in self.steps()[KEPT:]:
            self._manifest(old).unlink()
            self._tensors(old).unlink(missing_ok=True)

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step. An error of the system is no damage: the files may be whole."""
        try:
            manifest = read_object(self._manifest(step))
            data = read_if_there(self._tensors(step), TENSORS_LIMIT)
            if manifest is None or data is None:
                raise ValueError("half of it is missing")
            if manifest.pop("sha256", None) != seal(manifest, data):
                raise ValueError("its checksum is wrong")
            config, size = manifest["config"], manifest["metrics_size"]
            if manifest["step"] != step or type(size) is not int or size < 0:
                raise ValueError(f"it says step {manifest['step']!r}, {size!r} bytes of metrics")
            if not isinstance(config, dict):
                raise ValueError(f"its settings are {config!r}")
            digest, threads = manifest["metrics_sha256"], manifest.get("threads")
            return Checkpoint(step, load(data), config, size, digest, threads)
        except (ValueError, TypeError, KeyError, SafetensorError) as error:
            both = f"{self._manifest(step)} with {self._tensors(step).name}"
            raise DamagedError(f"checkpoint {both} is damaged ({error})") from error

    def good(self) -> Iterator[Checkpoint]:
        """The checkpoints that can be used, the newest first; a warning names the others."""
        steps = self.steps()
        for step in steps:
            try:
                yield self.at(step)
            except DamagedError as error:
                instead = "using the one before" if step > steps[-1] else "there is none before"
                warnings.warn(f"{error}: {instead}", stacklevel=3)

    def set_aside(self, step: int) -> None:
        """Rename the files of a checkpoint, so that it does not count any more."""
        for path in (self._manifest(step), self._tensors(step)):
            with suppress(FileNotFoundError):
                path.replace(path.with_name(path.name + ".damaged"))

    def _tensors(self, step: int) -> Path:
        return self.directory / f"{step:09d}.safetensors"

    def _manifest(self, step: int) -> Path:
        return self.directory / f"{step:09d}.json"


def seal(manifest: Mapping[str, Any], tensors: bytes) -> str:
    """Checksum of a checkpoint."""
    return sha256(tensors + json.dumps(manifest, sort_keys=True).encode())
