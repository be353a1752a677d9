"""The command line that trains a run."""

import shlex
from dataclasses import fields
from pathlib import Path

from carms.lab.runs.settings import Settings

__all__ = ["command_of"]


def command_of(settings: Settings, out: Path) -> str:
    """The command as it would be typed in a shell, without flags that have their default.

    Examples:
        >>> command_of(Settings(dataset="digits", upright=False, rate=1e-3), Path("my run"))
        "carms vae --dataset digits --no-upright --rate 0.001 --out 'my run'"
    """
    words = ["carms", settings.task]
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if field.name == "task" or value == field.default:
            continue
        flag = field.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *(value if isinstance(value, tuple) else [str(value)])]
    return shlex.join([*words, "--out", str(out)])
