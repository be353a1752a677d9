"""The command line."""

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["main"]

try:
    import tyro
    from rich.console import Console
except ImportError:
    sys.exit("the command line needs more than the library: pip install 'carms[lab]'")

from carms.commands.data import Data
from carms.commands.report import Report
from carms.commands.rollouts import Rollouts
from carms.commands.show import Correlations, Plot, Toy, Variance
from carms.commands.sweep import Sweep
from carms.commands.train import Complete, Evaluate, Vae
from carms.lab.training import InterruptedRunError

COMMANDS: dict[str, Callable[..., Any]] = {
    "vae": Vae,
    "complete": Complete,
    "evaluate": Evaluate,
    "sweep": Sweep,
    "plot": Plot,
    "report": Report,
    "variance": Variance,
    "toy": Toy,
    "rollouts": Rollouts,
    "correlations": Correlations,
    "data": Data,
}


def main() -> None:
    """Run a command; print one line and leave with 1 if its input is bad."""
    console = Console(soft_wrap=True, markup=False)
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="carms").run(console)
    except InterruptedRunError as stopped:
        console.print(f"stopped by {stopped}")
        sys.exit(130)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on")
        sys.exit(130)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"carms: {error}", file=sys.stderr)
        sys.exit(1)
