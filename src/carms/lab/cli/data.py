"""The commands that list, fetch and verify sets of images."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console

from carms.lab.cli.flags import named

__all__ = ["Data"]

Name = Annotated[str, tyro.conf.Positional, named("NAME")]


@dataclass(frozen=True)
class DataList:
    """Show which sets of images there are, and which of them are here."""

    def run(self, console: Console) -> None:
        """Print a line for each set."""
        from carms.lab.data.datasets import NAMES, default_root, verify

        console.print(f"looking in {default_root()}")
        for name in NAMES:
            states = {state for _, state in verify(name)} or {"good"}
            worst = next(s for s in ("damaged", "missing", "good") if s in states)
            console.print(f"  {name:14} {worst}", highlight=False)


@dataclass(frozen=True)
class DataFetch:
    """Download a set of images, and check it.

    Attributes:
        name: name of the set, see carms data list
    """

    name: Name

    def run(self, console: Console) -> None:
        """Download what is missing and print where everything is."""
        from carms.lab.data.fetching import fetch

        paths = fetch(self.name, progress=console.is_terminal)
        for path in paths:
            console.print(f"good: {path}")
        if not paths:
            _print_built_in(console, self.name)


@dataclass(frozen=True)
class DataVerify:
    """Check the files of a set of images.

    Attributes:
        name: name of the set, see carms data list
    """

    name: Name

    def run(self, console: Console) -> None:
        """Print the state of each file; an error if one is missing or damaged."""
        from carms.lab.data.datasets import verify

        found = verify(self.name)
        for path, state in found:
            console.print(f"{state}: {path}")
        if not found:
            _print_built_in(console, self.name)
        if any(state != "good" for _, state in found):
            raise ValueError(f"{self.name} is not complete: carms data fetch {self.name}")


def _print_built_in(console: Console, name: str) -> None:
    """Say that a set needs no files, once it could be loaded."""
    from carms.lab.data.datasets import load

    data = load(name)
    count = len(data.train) + len(data.valid) + len(data.test)
    console.print(f"good: {name} comes with scikit-learn, {count:,} images", highlight=False)


@dataclass(frozen=True)
class Data:
    """List, fetch and verify the sets of images.

    Files are kept in the directory $CARMS_DATA, by default in a cache of this user.

    Attributes:
        action: what to do
    """

    action: (
        Annotated[DataList, tyro.conf.subcommand("list", prefix_name=False)]
        | Annotated[DataFetch, tyro.conf.subcommand("fetch", prefix_name=False)]
        | Annotated[DataVerify, tyro.conf.subcommand("verify", prefix_name=False)]
    )

    def run(self, console: Console) -> None:
        """Run the action."""
        self.action.run(console)
