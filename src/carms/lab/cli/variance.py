"""The command that measures variances at the parameters of a run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import print_table
from carms.lab.cli.flags import Estimators, RunPath, explained
from carms.lab.cli.progress import progress_bars

if TYPE_CHECKING:
    from carms.lab.train.variance import Measured

__all__ = ["Variance"]


@dataclass(frozen=True)
class Variance:
    """Measure the variance of gradient estimators at the parameters that a run has reached.

    All estimators see the same parameters and the same images. The curves of different runs do
    not compare like this: they are of different models.

    The run's own estimator has the options of the run and, at the run's number of samples, what it
    has learned. All others have their default options; those that learn are untrained, and the
    table says so. The table is also written to variance-STEP.json in the directory of the run.

    Attributes:
        path: directory of the run
        estimators: names of the estimators
        samples: number of samples of a gradient (default: what the run would use with each
            estimator)
        repetitions: number of independent gradients of each estimator, at least 20
        images: number of images of the training set
        step: step of the checkpoint to measure at (default: the last one)
        device: torch device on which to compute
        threads: number of torch threads
    """

    path: RunPath
    estimators: Estimators = ("loorf", "carms-i", "carms-g", "carms-s")
    samples: Annotated[int | None, explained] = None
    repetitions: int = 1000
    images: int = 50
    step: Annotated[int | None, explained] = None
    device: str = "cpu"
    threads: int = 1

    def run(self, console: Console) -> None:
        """Measure, print a table, and write it beside the run."""
        for name, least in {"samples": 1, "repetitions": 20, "images": 1}.items():
            given = getattr(self, name)
            if given is not None and given < least:
                raise ValueError(f"{name} must be at least {least}, got {given}")
        if not self.estimators:
            raise ValueError("estimators must be one name or more, got none")
        if len(set(self.estimators)) < len(self.estimators):
            raise ValueError(f"give each estimator once, got {', '.join(self.estimators)}")
        import torch

        from carms.estimators import find
        from carms.lab.cli.machine import prepare
        from carms.lab.data.datasets import binarised, some_of
        from carms.lab.runs.writing import write_json
        from carms.lab.train.training import Trainer
        from carms.lab.train.variance import compare_variances

        for name in self.estimators:
            find(name)
        prepare(self.device, self.threads)
        trainer = Trainer.of_run(self.path, self.device, self.step)
        settings = trainer.settings
        stream = torch.Generator(self.device).manual_seed(settings.seed)
        images = binarised(some_of(trainer.train_images, self.images), stream)
        estimators = {name: trainer.estimator_named(name, self.samples) for name in self.estimators}
        untrained = {
            name
            for name, one in estimators.items()
            if (one.learned or one.stateful) and one is not trainer.estimator
        }
        found = compare_variances(
            trainer.model, images, estimators, self.repetitions, settings.seed
        )
        with progress_bars(console, transient=True) as bars:
            results = list(bars.track(found, len(estimators), description="Estimating gradients"))
        print_table(console, _table(results, untrained, trainer.step))
        written = self.path / f"variance-{trainer.step}.json"
        measured = {
            "step": trainer.step,
            "images": len(images),
            "repetitions": self.repetitions,
            "found": [
                {**vars(result), "untrained": result.estimator in untrained} for result in results
            ],
        }
        write_json(written, measured)
        console.print(f"written to {written}")


def _table(results: Sequence["Measured"], untrained: Collection[str], step: int) -> Table:
    table = Table(title=f"Variance of the logits' gradient at step {step:,}")
    table.add_column("estimator")
    first = results[0]
    relative = f"relative to {first.estimator}"
    for heading in ("samples", "variance", "standard error", relative, "ms"):
        table.add_column(heading, justify="right")
    for one in results:
        table.add_row(
            one.estimator + " (untrained)" * (one.estimator in untrained),
            str(one.samples),
            f"{one.variance:.5g}",
            f"{one.error:.2g}",
            f"{one.variance / first.variance:.3f}" if first.variance else "-",
            f"{one.milliseconds:.2f}",
        )
    return table
