"""The command line: find the command, parse its flags, run it."""

import inspect
import os
import re
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.metadata import version
from io import TextIOWrapper
from itertools import pairwise
from typing import Any, NoReturn

from carms.lab.extras import how_to_install

__all__ = ["COMMANDS", "main", "parse"]

try:
    import tyro
    from rich.table import Table
except ImportError:
    sys.exit(f"the command line needs more than the library: {how_to_install('lab')}")

import carms
from carms.lab.cli.console import PlainConsole
from carms.lab.cli.correlations import Correlations
from carms.lab.cli.data import Data
from carms.lab.cli.evaluate import Evaluate
from carms.lab.cli.plot import Plot
from carms.lab.cli.report import Report
from carms.lab.cli.rollouts import Rollouts
from carms.lab.cli.sweep import Sweep
from carms.lab.cli.toy import Toy
from carms.lab.cli.train import Complete, Vae
from carms.lab.cli.variance import Variance
from carms.lab.data.missing import MissingData
from carms.lab.runs.printable import printable
from carms.lab.train.signals import InterruptedRunError

# Nothing that a command module imports when it is imported may import torch: help is to be fast.
COMMANDS: dict[str, type[Any]] = {
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

# The least width for which help is laid out.
LEAST_COLUMNS = 40


def parse(arguments: Sequence[str]) -> Any:
    """Make the command that the arguments ask for; leave with help or an error otherwise."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        print(f"carms {carms.__version__}, torch {version('torch')}")
        sys.exit()
    if first in ("", "-h", "--help"):
        _print_overview()
        sys.exit(0 if first else 2)
    if first not in COMMANDS:
        _refuse(first)
    _refuse_empty(arguments)
    command = COMMANDS[first]
    with _widened():
        return tyro.cli(
            command,
            prog=f"carms {first}",
            description=_wrapped(_description(command)),
            args=arguments[1:],
            config=(tyro.conf.DisallowNone,),
        )


@contextmanager
def _widened() -> Iterator[None]:
    """Let tyro take a very narrow terminal for a wider one: its help never ends in a few columns,
    and cannot be read in twenty.
    """
    before = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns < LEAST_COLUMNS:
        os.environ["COLUMNS"] = str(LEAST_COLUMNS)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("COLUMNS", None)
        else:
            os.environ["COLUMNS"] = before


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raise if a value is empty: as a path, it would be the current directory."""
    for before, argument in pairwise(arguments):
        if not argument:
            raise ValueError(f"the value after {before} is empty")
        if re.fullmatch(r"--[\w-]+=", argument):
            raise ValueError(f"{argument} has no value")


def _print_overview() -> None:
    """Print what ``carms --help`` shows."""
    listed = Table.grid("command", "summary", padding=(0, 2))
    for name, command in COMMANDS.items():
        listed.add_row(f"  {name}", " ".join(_description(command)[0].split()))
    console = PlainConsole()
    console.print("usage: carms COMMAND [FLAGS]\n")
    console.print("Gradients through categorical choices: train, compare, draw, report.\n")
    console.print(listed)
    console.print("\n'carms COMMAND --help' shows the flags of a command.")
    console.print("'carms --version' shows the versions of carms and torch.")


def _refuse(name: str) -> NoReturn:
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "'carms --help' lists the commands"
    if name in carms.__all__:
        hint = f"carms.{name} is for Python, and 'carms --help' lists the commands"
    print(f"carms: unknown command {printable(repr(name))}; {hint}", file=sys.stderr)
    sys.exit(2)


def _description(command: type[Any]) -> list[str]:
    """The paragraphs of its docstring before the list of attributes."""
    text = (inspect.getdoc(command) or "").partition("\nAttributes:\n")[0]
    return text.strip().split("\n\n")


def _wrapped(paragraphs: Sequence[str]) -> str:
    """Text for the width of the terminal, which tyro does not wrap.

    The further lines of a paragraph are indented: tyro joins those that begin with a letter.
    """
    width = shutil.get_terminal_size().columns
    lines = [" ".join(text.split()) for text in paragraphs]
    return "\n\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in lines)


def _complain(text: str) -> NoReturn:
    """Print an error, on a terminal in lines that end between words, and leave with 1."""
    console = PlainConsole(stderr=True)
    console.print(f"carms: {text}", highlight=False, soft_wrap=not console.is_terminal)
    sys.exit(1)


def _without_number(error: OSError) -> str:
    """The text of an error of the system; our own errors name the file in their text."""
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text


def _escape_unprintable() -> None:
    """Let the output show characters that it cannot encode as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        # Somebody may have put another object in the place of a stream.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_like_an_interrupt() -> None:
    """Treat a request to end like Ctrl-C, so that worker processes are ended in order.

    A run that trains in this process answers it by itself.
    """
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> None:
    """Run a command; print what is wrong and leave with 1 if its input is bad."""
    _escape_unprintable()
    _end_like_an_interrupt()
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
        resumes = isinstance(command, Vae | Complete | Sweep)
        console.print("stopped; run the same command again to resume" if resumes else "stopped")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output is gone, and there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as error:
        _complain(printable(f"{error}: {how_to_install('lab')}"))
    except MissingData as error:
        _complain(str(error))
    except OSError as error:
        _complain(printable(_without_number(error)))
    except (ImportError, ValueError, TypeError, FloatingPointError) as error:
        _complain(printable(str(error)))
