"""Checksums of the files of a finished run, as ``sha256sum --check`` reads them."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from carms.lab.runs.reading import read_bounded

__all__ = ["NAME", "Sums", "sha256"]

NAME = "SHA256SUMS"
# The largest size of the file in bytes.
_LIMIT = 1 << 16


class Sums:
    """The checksums in ``SHA256SUMS`` of a directory; none if there is no such file.

    They are those of a finished run: without ``result.json`` they do not count, since a run that
    is resumed writes on.

    Args:
        directory: directory of the run.
    """

    def __init__(self, directory: Path) -> None:
        self._known: dict[str, str] = {}
        if not os.path.lexists(directory / "result.json"):
            return
        try:
            text = read_bounded(directory / NAME, _LIMIT).decode()
        except FileNotFoundError:
            return
        except UnicodeDecodeError as error:
            raise ValueError(f"{directory / NAME} is damaged: {error}") from error
        lines = (line.partition("  ") for line in text.splitlines())
        self._known = {name: found for found, _, name in lines}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def check(self, name: str, found: str) -> None:
        """Raise if the checksum of a file is not the recorded one."""
        if self._known.get(name, found) != found:
            raise ValueError(f"its checksum is not the one in {NAME}")

    @staticmethod
    def of(contents: Mapping[str, bytes]) -> bytes:
        """The contents of ``SHA256SUMS`` for files by their names."""
        lines = [f"{sha256(data)}  {name}\n" for name, data in contents.items()]
        return "".join(lines).encode()


def sha256(data: bytes) -> str:
    """Checksum of the data, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
