"""Sets of images: list, fetch, verify."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console

from carms.lab.data.datasets import NAMES, default_root, fetch, verify

__all__ = ["Data"]


@dataclass(frozen=True)
class DataList:
    """Show which sets of images there are, and which of them are here."""

    def run(self, console: Console) -> None:
        console.print(f"looking in {default_root()}")
        for name in NAMES:
            states = {state for _, state in verify(name)} or {"good"}
            worst = next(s for s in ("damaged", "missing", "good") if s in states)
            console.print(f"  {name:14} {worst}", highlight=False)


@dataclass(frozen=True)
class DataFetch:
    """Download a set of images, and check it.

    Attributes:
        name: of the set.
    """

    name: Annotated[str, tyro.conf.Positional]

    def run(self, console: Console) -> None:
        for path in fetch(self.name, progress=console.is_terminal):
            console.print(f"good: {path}")


@dataclass(frozen=True)
class DataVerify:
    """Check the files of a set of images.

    Attributes:
        name: of the set.
    """

    name: Annotated[str, tyro.conf.Positional]

    def run(self, console: Console) -> None:
        found = verify(self.name)
        for path, state in found:
            console.print(f"{state}: {path}")
        if any(state != "good" for _, state in found):
            raise ValueError(f"{self.name} is not complete: carms data fetch {self.name}")


@dataclass(frozen=True)
class Data:
    """List, fetch and verify the sets of images.

    Attributes:
        action: what to do.
    """

    action: (
        Annotated[DataList, tyro.conf.subcommand("list", prefix_name=False)]
        | Annotated[DataFetch, tyro.conf.subcommand("fetch", prefix_name=False)]
        | Annotated[DataVerify, tyro.conf.subcommand("verify", prefix_name=False)]
    )

    def run(self, console: Console) -> None:
        self.action.run(console)
