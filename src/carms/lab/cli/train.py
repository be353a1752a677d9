"""Train a run, and evaluate one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from carms.lab.cli.bars import progress_bars
from carms.lab.cli.machine import prepare
from carms.lab.report.paper import printed
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import OnPart, evaluate
from carms.lab.train.training import Trainer

__all__ = ["Complete", "Evaluate", "Vae"]


@dataclass(frozen=True)
class Train:
    """What the commands that train have in common.

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
        prepare(self.device, self.threads)
        trainer = Trainer(self.settings, self.out, self.device)
        if trainer.directory.result is not None:
            console.print(f"{self.out} is finished; its result:")
            _print_result(console, trainer.directory.result, self.settings)
            for path in trainer.draw_missing():
                console.print(f"drawn again: {path}")
            return
        with _progress(console, self.settings) as (show, tell):
            result = trainer.run(show, tell)
        _print_result(console, result, self.settings)
        console.print(
            f"written to {self.out}: config.json, metrics.jsonl, result.json, tensorboard/"
        )
        pictures = [f"{name}.png" for name in trainer.model.picture_names]
        console.print(f"pictures: {', '.join(pictures)}")


@dataclass(frozen=True)
class Vae(Train):
    """Train the discrete variational autoencoder of the paper, or go on with a run.

    The same command again resumes a run that was interrupted, and says so of a finished one.
    """


@dataclass(frozen=True, kw_only=True)
class Complete(Train):
    """Train a network to predict the lower half of an image from the upper one, or go on with it.

    The same command again resumes a run that was interrupted, and says so of a finished one.
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(
        default_factory=lambda: Settings(task="complete")
    )


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the last checkpoint of a run, finished or not, on its training and test set.

    Attributes:
        path: the directory of the run.
        samples: of the log likelihood; those of the run unless told.
        device: where to compute.
        threads: of torch.
    """

    path: Annotated[Path, tyro.conf.Positional]
    samples: int | None = None
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        if self.samples is not None and self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        prepare(self.device, self.threads)
        trainer = Trainer.of_run(self.path, self.device)
        settings = trainer.settings
        samples = self.samples or settings.likelihood_samples
        console.print(f"{self.path} at step {trainer.step:,}, {samples} samples:")
        with _progress(console, settings) as (_, tell):
            result = evaluate(trainer.model, trainer.data, samples, settings.seed, tell)
        _print_result(console, result, settings)


@contextmanager
def _progress(
    console: Console, settings: Settings
) -> Iterator[tuple[Callable[[dict[str, Any]], None], OnPart]]:
    """A bar for training and one for evaluation; lines where there is no terminal."""
    quiet = not console.is_terminal
    with progress_bars(console) as progress:
        training = progress.add_task(settings.estimator, total=settings.steps, visible=False)
        evaluating = progress.add_task("images evaluated", total=None, visible=False)

        def show(line: dict[str, Any]) -> None:
            text = f"{settings.estimator}  objective {line['objective']:.2f}"
            progress.update(training, completed=line["step"], description=text, visible=True)
            if quiet:
                console.print(
                    f"step {line['step']:>9,}  objective {line['objective']:9.3f}  "
                    f"variance {line['gradient_variance']:.4g}  "
                    f"{line['milliseconds']:.2f} ms a step",
                    highlight=False,
                )

        def tell(done: int, total: int) -> None:
            progress.update(evaluating, completed=done, total=total, visible=True)

        yield show, tell


def _print_result(console: Console, result: dict[str, Any], settings: Settings) -> None:
    for part in ("train", "test"):
        names = f"{part}_log_likelihood", f"{part}_standard_error"
        try:
            bound, error = (float(result[name]) for name in names)
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(
                f"result.json is damaged: it has no numbers {' and '.join(names)}"
            ) from why
        paper = printed(settings, part)
        beside = f"  (paper, after 10^6 steps: {paper})" if paper else ""
        console.print(
            f"{part:>5} log likelihood {bound:9.3f} +- {error:.3f}{beside}", highlight=False
        )
