"""Compare runs and estimators, in tables and pictures."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carms.lab.cli.machine import prepare
from carms.lab.data.datasets import some_of
from carms.lab.figures.correlations import correlations, draw_correlations
from carms.lab.figures.curves import draw_curves
from carms.lab.figures.toy import ALPHAS, draw_toy, run_toy
from carms.lab.report.blocks import make_blocks
from carms.lab.report.paper import printed
from carms.lab.runs.gather import Run, gather
from carms.lab.runs.records import PARTS
from carms.lab.runs.store import write_json
from carms.lab.train.evaluation import binarised
from carms.lab.train.training import Trainer
from carms.lab.train.variance import compare_variances

__all__ = ["Correlations", "Plot", "Toy", "Variance"]


@dataclass(frozen=True)
class Plot:
    """Draw objective, test bound and gradient variance of runs over their steps, and print a table
    of their results beside those of the paper.

    Attributes:
        runs: their directories, or directories of them.
        out: the picture; it is written as PNG and as SVG.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("curves.png")

    def run(self, console: Console) -> None:
        gathered = gather(self.runs)
        for problem in gathered.problems:
            console.print(problem, style="yellow")
        table = Table(
            title="Log likelihood, bound in nats; that of the paper after 10^6 steps",
            box=SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 0, 0, 1),
        )
        table.add_column("run", overflow="fold")
        for heading in ("estimator", "seed", "step"):
            table.add_column(heading, no_wrap=True)
        for heading in ("train", "paper", "test", "paper", "ms"):
            table.add_column(heading, justify="right", no_wrap=True)
        blocks = make_blocks(gathered.runs, self.runs)
        for run in [run for block in blocks for run in block.runs]:
            table.add_row(*_row(run))
        console.print(table)
        for written in draw_curves(blocks, self.out):
            console.print(f"written to {written}")


def _row(run: Run) -> list[str]:
    cells = []
    for part in PARTS:
        cells.append(f"{run.result.likelihood[part]:.2f}" if run.result else "-")
        paper = printed(run.settings, part)
        cells.append(f"{paper.mean:.2f}" if paper else "-")
    rate = "-" if run.milliseconds is None else f"{run.milliseconds:.2f}"
    settings = run.settings
    return [run.path.name, settings.estimator, str(settings.seed), f"{run.step:,}", *cells, rate]


@dataclass(frozen=True)
class Variance:
    """Measure the variance of estimators' gradients at the parameters that a run has reached.

    All of them see the same parameters and the same images, which the curves of different runs do
    not: gradients of different models are different things.

    Attributes:
        path: the directory of the run.
        estimators: their names.
        samples: per gradient; by default as many as a run like this one has with each estimator.
        repetitions: independent gradients of each.
        images: of the training set.
        step: which checkpoint of the run; the last unless told.
        device: where to compute.
        threads: of torch.
    """

    path: Annotated[Path, tyro.conf.Positional]
    estimators: tuple[str, ...] = ("loorf", "carms-i", "carms-g", "carms-s")
    samples: int | None = None
    repetitions: int = 1000
    images: int = 50
    step: int | None = None
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        if self.repetitions < 20 or self.images < 1 or not self.estimators:
            raise ValueError("it takes an estimator, an image and 20 repetitions at least")
        prepare(self.device, self.threads)
        trainer = Trainer.of_run(self.path, self.device, self.step)
        settings = trainer.settings
        stream = torch.Generator(self.device).manual_seed(settings.seed)
        images = binarised(some_of(trainer.train, self.images), stream)
        samples = {name: self.samples or settings.samples_of(name) for name in self.estimators}
        found = compare_variances(trainer.model, images, samples, self.repetitions, settings.seed)
        quiet = not console.is_terminal
        total = len(samples)
        results = list(track(found, "Estimating gradients", total, console=console, disable=quiet))
        table = Table(title=f"Variance of the logits' gradient at step {trainer.step:,}")
        table.add_column("estimator")
        relative = f"of {results[0].estimator}'s"
        for heading in ("samples", "variance", "standard error", relative, "ms"):
            table.add_column(heading, justify="right")
        for one in results:
            ratio = one.variance / results[0].variance
            table.add_row(
                one.estimator,
                str(one.samples),
                f"{one.variance:.5g}",
                f"{one.error:.2g}",
                f"{ratio:.3f}",
                f"{one.milliseconds:.2f}",
            )
        console.print(table)
        written = self.path / f"variance-{trainer.step}.json"
        measured = {
            "step": trainer.step,
            "images": len(images),
            "repetitions": self.repetitions,
            "found": [vars(result) for result in results],
        }
        write_json(written, measured)
        console.print(f"written to {written}")


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
        if self.problems < 1 or self.replicates < 2 or not self.estimators:
            raise ValueError("it takes an estimator, a problem and 2 replicates at least")
        if len(set(self.estimators)) < len(self.estimators):
            raise ValueError(f"give each estimator once, got {', '.join(self.estimators)}")
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
class Correlations:
    """Draw how two samples of one variable are correlated, for every copula and coupling.

    Attributes:
        probs: of the categories; they are divided by their sum.
        samples: of a draw.
        out: the picture; it is written as PNG and as SVG.
    """

    probs: tuple[float, ...] = (1, 2, 3, 4)
    samples: int = 4
    out: Path = Path("correlations.png")

    def run(self, console: Console) -> None:
        weights = torch.tensor(self.probs, dtype=torch.float64)
        if len(weights) < 2 or not (weights > 0).all() or not weights.isfinite().all():
            raise ValueError(f"probs are at least two positive numbers, got {self.probs}")
        probs = weights / weights.sum()
        panels = correlations(probs, self.samples)
        table = Table(title=f"Correlation of two of {self.samples} samples")
        table.add_column("coupling")
        table.add_column("same category, mean", justify="right")
        table.add_column("lowest", justify="right")
        table.add_column("from")
        for panel in panels:
            same, lowest = panel.matrix.diagonal().mean().item(), panel.matrix.min().item()
            source = "its table" if panel.exact else "draws"
            table.add_row(panel.name, f"{same:z.3f}", f"{lowest:z.3f}", source)
        console.print(table)
        for written in draw_correlations(panels, probs, self.samples, self.out):
            console.print(f"written to {written}")
