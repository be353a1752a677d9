"""The command line: parses, calls the lab, prints."""

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

__all__ = ["main"]

try:
    import tyro
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        track,
    )
    from rich.table import Table
except ImportError:
    sys.exit("the command line needs more than the library: pip install 'carms[lab]'")

import torch

from carms.lab.data import NAMES, default_root, fetch, verify
from carms.lab.figures import draw_curves, draw_images
from carms.lab.memory import keep_freed_memory
from carms.lab.settings import Settings
from carms.lab.store import RunDirectory
from carms.lab.toy import ALPHAS, draw_toy, run_toy
from carms.lab.training import InterruptedRunError, Trainer, evaluate


@dataclass(frozen=True)
class Vae:
    """Train the discrete variational autoencoder of the paper, or go on with a run.

    The same command again resumes a run that was interrupted, and says so of a finished one.

    Attributes:
        settings: what to train.
        out: the directory of the run.
        device: where to compute.
        threads: of torch.
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    out: Path
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        torch.set_num_threads(self.threads)
        keep_freed_memory()
        trainer = Trainer(self.settings, self.out, self.device)
        if trainer.directory.result is not None:
            console.print(f"{self.out} is finished; its result:")
            _print_result(console, trainer.directory.result)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        quiet = not console.is_terminal
        with Progress(*columns, console=console, disable=quiet) as progress:
            task = progress.add_task(self.settings.estimator, total=self.settings.steps)

            def show(line: dict[str, float]) -> None:
                progress.update(
                    task,
                    completed=line["step"],
                    description=f"{self.settings.estimator}  ELBO {line['objective']:.2f}",
                )
                if quiet:
                    console.print(
                        f"step {line['step']:>9,}  ELBO {line['objective']:9.3f}  "
                        f"variance {line['gradient_variance']:.4g}  "
                        f"{line['milliseconds']:.2f} ms a step",
                        highlight=False,
                    )

            result = trainer.run(show)
        pictures = draw_images(trainer.model, trainer.data, self.out)
        _print_result(console, result)
        console.print(
            f"written to {self.out}: config.json, metrics.jsonl, result.json, tensorboard/"
        )
        console.print(f"pictures: {', '.join(path.name for path in pictures)}")


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the last checkpoint of a run, finished or not, on its training and test set.

    Attributes:
        path: the directory of the run.
        samples: of the bound.
        device: where to compute.
        threads: of torch.
    """

    path: Annotated[Path, tyro.conf.Positional]
    samples: int = 100
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        torch.set_num_threads(self.threads)
        trainer = Trainer.of_run(self.path, self.device)
        console.print(f"{self.path} at step {trainer.step:,}, {self.samples} samples:")
        result = evaluate(trainer.model, trainer.data, self.samples, trainer.settings.seed)
        _print_result(console, result)


@dataclass(frozen=True)
class Plot:
    """Draw objective, test bound and gradient variance of runs over their steps, and print a table
    of their results.

    Attributes:
        runs: their directories.
        out: the picture; it is written as PNG and as SVG.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("curves.png")

    def run(self, console: Console) -> None:
        missing = [str(path) for path in self.runs if RunDirectory.config_of(path) is None]
        if not self.runs or missing:
            raise ValueError(f"no run in {', '.join(missing) or 'nothing'}: give run directories")
        table = Table(title="Log likelihood, bound in nats")
        for heading in ("run", "estimator", "seed", "step"):
            table.add_column(heading)
        for heading in ("train", "test", "ms a step"):
            table.add_column(heading, justify="right")
        for path in self.runs:
            table.add_row(*_row(path))
        console.print(table)
        for written in draw_curves(self.runs, self.out):
            console.print(f"written to {written}")


def _row(path: Path) -> list[str]:
    config = RunDirectory.config_of(path)
    assert config is not None
    run = RunDirectory(path, config)
    result, metrics = run.result, run.metrics
    step = f"{metrics[-1]['step']:,}" if metrics else "0"
    rate = f"{statistics.median(line['milliseconds'] for line in metrics):.2f}" if metrics else "-"
    bounds = ["-", "-"]
    if result is not None:
        bounds = [f"{result[f'{part}_log_likelihood']:.2f}" for part in ("train", "test")]
    return [path.name, config["estimator"], str(config["seed"]), step, *bounds, rate]


@dataclass(frozen=True)
class Toy:
    """Estimate the same gradient of the paper's toy problem many times, and draw how it varies.

    Attributes:
        estimators: their names.
        out: the picture; it is written as PNG and as SVG.
        problems: random p for each alpha.
        replicates: gradients for each p.
        seed: of all of it.
    """

    estimators: tuple[str, ...] = ("loorf", "carms-i", "carms-g", "carms-s")
    out: Path = Path("toy.png")
    problems: int = 50
    replicates: int = 1000
    seed: int = 0

    def run(self, console: Console) -> None:
        total = len(ALPHAS) * len(self.estimators)
        found = run_toy(self.estimators, self.problems, self.replicates, self.seed)
        quiet = not console.is_terminal
        results = list(track(found, "Estimating gradients", total, console=console, disable=quiet))
        table = Table(title="Variance of the gradient, mean over all logits")
        table.add_column("estimator")
        for alpha in ALPHAS:
            table.add_column(f"alpha = {alpha:g}", justify="right")
        table.add_column("bias / its standard error", justify="right")
        for name in self.estimators:
            own = [result for result in results if result.estimator == name]
            bias = statistics.mean(result.bias for result in own)
            table.add_row(name, *[f"{r.variances.mean():.4f}" for r in own], f"{bias:.2f}")
        console.print(table)
        console.print("A bias of about one standard error is what chance alone gives.")
        for written in draw_toy(results, self.out):
            console.print(f"written to {written}")


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


def _print_result(console: Console, result: Mapping[str, float]) -> None:
    for part in ("train", "test"):
        bound, error = result[f"{part}_log_likelihood"], result[f"{part}_standard_error"]
        console.print(f"{part:>5} log likelihood {bound:9.3f} +- {error:.3f}", highlight=False)


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


COMMANDS: dict[str, Callable[..., Any]] = {
    "vae": Vae,
    "evaluate": Evaluate,
    "plot": Plot,
    "toy": Toy,
    "data": Data,
}


def main() -> None:
    """Run a command; print one line and leave with 1 if its input is bad."""
    console = Console(soft_wrap=True)
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="carms").run(console)
    except InterruptedRunError as stopped:
        console.print(f"stopped by {stopped}")
        sys.exit(130)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"carms: {error}", file=sys.stderr)
        sys.exit(1)
