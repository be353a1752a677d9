"""Annotations that make flags of fields, used by several commands."""

from pathlib import Path
from typing import Annotated

import tyro

__all__ = ["Directory", "Estimators", "RunPath", "RunPaths", "explained", "named"]


def named(metavar: str) -> object:
    """Call the value of a flag by a name in the help, instead of by its type."""
    return tyro.conf.arg(metavar=metavar)


explained = tyro.conf.arg(help_behavior_hint="")
"""Leave it to the help of a flag to say what its default is."""

Directory = Annotated[Path, named("DIR")]
Estimators = Annotated[tuple[str, ...], named("NAME ...")]
RunPath = Annotated[Path, tyro.conf.Positional, named("RUN")]
RunPaths = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="DIR ...", help_behavior_hint="(required)"),
]
