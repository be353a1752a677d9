"""The command that evaluates a run."""

from dataclasses import dataclass
from typing import Annotated

from rich.console import Console

from carms.lab.cli.flags import RunPath, explained
from carms.lab.cli.progress import RunProgress
from carms.lab.cli.result import print_result

__all__ = ["Evaluate"]


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the last checkpoint of a run on its training set and its test set.

    The run need not be finished.

    Attributes:
        path: directory of the run
        samples: number of samples of the log likelihood (default: that of the run)
        device: torch device on which to compute
        threads: number of torch threads
    """

    path: RunPath
    samples: Annotated[int | None, explained] = None
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        """Evaluate the run and print the result."""
        if self.samples is not None and self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        with console.status("Loading"):
            from carms.lab.cli.machine import prepare
            from carms.lab.train.evaluation import evaluate
            from carms.lab.train.training import Trainer

            prepare(self.device, self.threads)
            trainer = Trainer.of_run(self.path, self.device)
        settings = trainer.settings
        samples = self.samples or settings.likelihood_samples
        console.print(f"{self.path} at step {trainer.step:,}, {samples} samples:")
        with RunProgress(console, settings) as progress:
            result = evaluate(trainer.model, trainer.data, samples, settings.seed, progress.on_part)
        print_result(console, result, settings)
