"""Record the machines and versions of a contest, and read what is noted about its results."""

import json
import os
import platform
from pathlib import Path

import torch
from filelock import FileLock

import carms
from carms.lab.runs.reading import OBJECT_LIMIT, parse_json, read_if_there
from carms.lab.runs.writing import write_atomically

__all__ = ["describe_machine", "note_machine", "noted_limits", "noted_machines"]

_NAME = "machines.json"


def describe_machine() -> str:
    """This machine and the versions of what runs on it, in one line."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python "
        f"{platform.python_version()}, torch {torch.__version__}, carms {carms.__version__}"
    )


def note_machine(folder: Path) -> None:
    """Add this machine to the list of those on which the contest ran, if it is new."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "machines.lock"):
        known = noted_machines(folder)
        if (here := describe_machine()) not in known:
            text = json.dumps([*known, here], indent=2) + "\n"
            write_atomically(folder / _NAME, text.encode())


def noted_machines(folder: Path) -> list[str]:
    """All machines on which the contest ran."""
    return _texts(folder / _NAME)


def noted_limits(folder: Path) -> list[str]:
    """What is to be known about some of the results, as written by hand into ``limits.json``."""
    return _texts(folder / "limits.json")


def _texts(path: Path) -> list[str]:
    """The texts of a list in a file; none if there is no file."""
    data = read_if_there(path, OBJECT_LIMIT)
    if data is None:
        return []
    try:
        found = parse_json(data)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ValueError("it is no list of texts")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return found


def _processor() -> str:
    """The model of the processor; on Linux, where Python does not tell it, from /proc."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
