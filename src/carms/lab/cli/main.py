"""The command line."""

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any

__all__ = ["main"]

try:
    import rich  # noqa: F401
    import tyro
except ImportError:
    sys.exit("the command line needs more than the library: pip install 'carms[lab]'")

import torch

import carms
from carms.lab.cli.console import PlainConsole
from carms.lab.cli.data import Data
from carms.lab.cli.report import Report
from carms.lab.cli.rollouts import Rollouts
from carms.lab.cli.show import Correlations, Plot, Toy, Variance
from carms.lab.cli.sweep import Sweep
from carms.lab.cli.train import Complete, Evaluate, Vae
from carms.lab.runs.printable import printable
from carms.lab.train.training import InterruptedRunError

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


DESCRIPTION = """Gradients through categorical choices: train, compare, draw, report.

'carms COMMAND --help' says more of each command, 'carms --version' which version this is."""


def parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments ask for; leaves with help or an error where they do not."""
    if list(arguments) == ["--version"]:
        print(f"carms {carms.__version__}, torch {torch.__version__}")
        sys.exit()
    if arguments and arguments[0] in COMMANDS:
        name = arguments[0]
        return tyro.cli(COMMANDS[name], prog=f"carms {name}", args=arguments[1:])
    listed: list[Any] = [
        Annotated[command, tyro.conf.subcommand(name, description=_summary(command))]
        for name, command in COMMANDS.items()
    ]
    any_of_them = reduce(or_, listed)
    return tyro.cli(any_of_them, prog="carms", description=DESCRIPTION, args=arguments)


def _summary(command: Callable[..., Any]) -> str:
    """The first paragraph of its docstring."""
    return (inspect.getdoc(command) or "").split("\n\n")[0]


def main() -> None:
    """Run a command; print one line and leave with 1 if its input is bad."""
    console = PlainConsole()
    warnings.formatwarning = lambda message, *place: f"carms: {printable(str(message))}\n"
    command = None
    try:
        command = parse(sys.argv[1:])
        command.run(console)
    except InterruptedRunError as stopped:
        console.print(f"stopped by {stopped}")
        sys.exit(130)
    except KeyboardInterrupt:
        goes_on = isinstance(command, Vae | Complete | Sweep)
        console.print("stopped; the same command goes on" if goes_on else "stopped")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough, and there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"carms: {printable(str(error))}", file=sys.stderr)
        sys.exit(1)
