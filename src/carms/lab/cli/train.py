"""The commands that train one run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from carms.lab.cli.flags import Directory, explained
from carms.lab.cli.progress import RunProgress
from carms.lab.cli.result import print_result
from carms.lab.cli.words import duration
from carms.lab.figures.labels import PICTURES_OF
from carms.lab.figures.png import read_picture
from carms.lab.runs.settings import Settings

__all__ = ["Complete", "Vae"]


@dataclass(frozen=True)
class VaeFlags(Settings):
    """Settings as flags: the task is hidden, because the command says it."""

    task: Annotated[Literal["vae", "complete"], tyro.conf.Suppress] = "vae"
    latents: Annotated[int | None, explained] = None
    samples: Annotated[int | None, explained] = None
    options: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="")
    ] = ()
    eval_samples: Annotated[int | None, explained] = None


@dataclass(frozen=True)
class CompleteFlags(VaeFlags):
    """Settings of the completion task as flags."""

    task: Annotated[Literal["vae", "complete"], tyro.conf.Suppress] = "complete"
    # This task has no prior.
    prior_rate: Annotated[float, tyro.conf.Suppress] = Settings.prior_rate


@dataclass(frozen=True)
class Vae:
    """Train the discrete variational autoencoder of the paper.

    The same command again resumes a run that was interrupted, and prints the result of one that is
    finished.

    Attributes:
        flags: settings of the run
        out: directory of the run
        device: torch device on which to compute
        threads: number of torch threads
    """

    flags: Annotated[VaeFlags, tyro.conf.arg(name="")]
    out: Directory
    device: str = "cpu"
    threads: int = 1

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return Settings.from_json(self.flags.to_json())

    def run(self, console: Console) -> None:
        """Train, or show the result of a finished run."""
        result = self._read_finished()
        if result is not None:
            self._print_finished(console, result)
            return
        with console.status("Loading"):
            from carms.lab.cli.machine import prepare
            from carms.lab.train.training import Trainer

            prepare(self.device, self.threads)
            trainer = Trainer(self.settings, self.out, self.device)
        if trainer.result is not None:
            self._print_finished(console, trainer.result)
            for path in trainer.draw_missing():
                console.print(f"drawn again: {path}")
            return
        with RunProgress(console, trainer.settings) as progress:
            result = trainer.run(progress.on_metrics, progress.on_step, progress.on_part)
        print_result(console, result, trainer.settings)
        training, evaluation = (result[f"{part}_seconds"] for part in ("training", "evaluation"))
        took = f"training took {duration(training)}, evaluation {duration(evaluation)}"
        console.print(took, highlight=False)
        console.print(
            f"written to {self.out}: config.json, metrics.jsonl, result.json, tensorboard/"
        )
        pictures = [f"{name}.png" for name in PICTURES_OF[self.settings.task]]
        console.print(f"pictures: {', '.join(pictures)}")

    def _read_finished(self) -> dict[str, Any] | None:
        """The result of a finished run that lacks nothing, read without its model; None otherwise.

        A directory of another run is an error.
        """
        from carms.lab.runs.records import read_finished
        from carms.lab.runs.store import RunDirectory

        RunDirectory(self.out, self.settings.to_json())
        result = read_finished(self.out, self.settings)
        paths = [self.out / f"{name}.png" for name in PICTURES_OF[self.settings.task]]
        return result if all(map(read_picture, paths)) else None

    def _print_finished(self, console: Console, result: Mapping[str, Any]) -> None:
        console.print(f"{self.out} is finished; its result:")
        print_result(console, result, self.settings)


@dataclass(frozen=True)
class Complete(Vae):
    """Train a network that predicts the lower half of an image from the upper half.

    The same command again resumes a run that was interrupted, and prints the result of one that is
    finished.
    """

    flags: Annotated[CompleteFlags, tyro.conf.arg(name="")]
