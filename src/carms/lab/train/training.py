"""Train a run from where it is to its end."""

import math
import platform
import signal
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import carms
from carms.estimators.families.score_function import ScoreFunction
from carms.lab.data.datasets import Dataset, some_of
from carms.lab.figures.images import draw_images
from carms.lab.figures.labels import PICTURES_OF
from carms.lab.figures.png import read_picture
from carms.lab.runs.checkpoints import Checkpoint
from carms.lab.runs.records import read_config, read_finished
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.evaluation import OnPart, evaluate, mean_bound
from carms.lab.train.events import event_writer
from carms.lab.train.learner import Learner
from carms.lab.train.signals import InterruptedRunError, pending_signals
from carms.lab.train.variance import contribution_variance, gradient_variance

__all__ = ["OnMetrics", "OnStep", "Trainer"]

# Number of independent gradients at a fixed batch, of which a logged variance is made.
REPETITIONS = 10
# Images and samples of each for a bound while training.
BOUND_IMAGES, BOUND_SAMPLES = 1000, 10

OnMetrics = Callable[[Mapping[str, Any]], None]
"""Called with each line of metrics after it is written."""
OnStep = Callable[[int, float | None], None]
"""Called with the step and the mean objective since the last line of metrics; None before the
first step of this call.
"""


class Trainer(Learner):
    """A learner with a directory, which logs, keeps checkpoints and can be resumed.

    Args:
        settings: what to run.
        path: directory of the run.
        device: where to compute.
        data: the images; by default those that the settings name.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        device: torch.device | str = "cpu",
        data: Dataset | None = None,
    ) -> None:
        super().__init__(settings, device, data)
        self.directory = RunDirectory(path, settings.to_json())

    @staticmethod
    def of_run(
        path: Path, device: torch.device | str = "cpu", step: int | None = None
    ) -> "Trainer":
        """Load a run from the checkpoint of a step, by default from the newest good one."""
        config = read_config(path)
        if config is None:
            raise ValueError(f"there is no run in {path}")
        settings = Settings.from_json(config)
        # Read first: it refuses settings that were changed, before a model of wrong size is built.
        checkpoint = RunDirectory(path, settings.to_json()).checkpoint(step)
        trainer = Trainer(settings, path, device)
        trainer._restore(checkpoint)
        return trainer

    @property
    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` has; None if the run is not finished."""
        return read_finished(self.directory.path, self.settings)

    def run(
        self,
        on_metrics: OnMetrics = lambda line: None,
        on_step: OnStep = lambda step, objective: None,
        on_part: OnPart = lambda done, total: None,
        patience: float = 0.0,
    ) -> dict[str, Any]:
        """Train to the end, evaluate, draw pictures, and return ``result.json``. A finished run
        returns it at once.

        Args:
            on_metrics: called with each line of metrics.
            on_step: called after each step, and once before the first.
            on_part: called with the number of images that are evaluated, and of all.
            patience: seconds to wait for another process that is training this run.
        """
        with self.directory.held(patience):
            if self.result is None:
                checkpoint = self.directory.resume()
                if checkpoint is not None:
                    self._restore(checkpoint)
                    _warn_of_threads(checkpoint)
                with pending_signals() as pending:
                    self._train(on_metrics, on_step, pending)
                if pending:
                    name = signal.Signals(pending[0]).name
                    raise InterruptedRunError(
                        f"{name} at step {self.step}; run the same command again to resume"
                    )
                self._finish(on_part)
        result = self.result
        assert result is not None
        return result

    def draw_missing(self) -> list[Path]:
        """Draw the pictures of a finished run again that are missing or damaged, from the
        checkpoint of its last step, and return the paths that were drawn.
        """
        path = self.directory.path
        names = PICTURES_OF[self.settings.task]
        missing = [name for name in names if not read_picture(path / f"{name}.png")]
        if not missing:
            return []
        with self.directory.held():
            try:
                checkpoint = self.directory.checkpoint(self.settings.steps)
            except ValueError as error:
                # A picture of an earlier step would pass for one of the result.
                warnings.warn(f"{', '.join(missing)} cannot be drawn again: {error}", stacklevel=2)
                return []
            self._restore(checkpoint)
            return draw_images(self.model, self.data, path, missing)

    def _finish(self, on_part: OnPart) -> None:
        settings = self.settings
        started = time.perf_counter()
        result = evaluate(
            self.model, self.data, settings.likelihood_samples, settings.seed, on_part
        )
        seconds = {
            "training_seconds": self.total_seconds,
            "evaluation_seconds": time.perf_counter() - started,
        }
        # The result is written last, because it marks the run as finished.
        draw_images(self.model, self.data, self.directory.path, PICTURES_OF[settings.task])
        self.directory.finish({"step": self.step, **result, **seconds, "versions": _versions()})

    def _train(self, on_metrics: OnMetrics, on_step: OnStep, pending: list[int]) -> None:
        """Take the steps that are left; stop with a checkpoint as soon as a signal is pending."""
        settings = self.settings
        on_step(self.step, None)
        with event_writer(self.directory.path / "tensorboard", self.step + 1) as writer:
            while self.step < settings.steps:
                images, _ = self.one_step()
                mean = self.objective_sum / self.steps_since_line
                last = self.step == settings.steps
                line = None
                if self.step % settings.log_every == 0 or last:
                    with self._naming_divergence(images):
                        line = self._take_line(images)
                    self.directory.log(line)
                    for name, number in line.items():
                        writer.add_scalar(name, number, self.step)
                stopping = bool(pending)
                if self.step % settings.checkpoint_every == 0 or last or stopping:
                    self.directory.save(self.step, self.state())
                # After the checkpoint, because printing fails if the terminal was closed.
                on_step(self.step, mean)
                if line is not None:
                    on_metrics(line)
                if stopping:
                    return

    def _take_line(self, images: Tensor) -> dict[str, float]:
        """The line of metrics of the steps since the last one. Resets the sums."""
        count = self.steps_since_line
        line = {
            "step": self.step,
            "objective": self.objective_sum / count,
            **self._variances(images),
            **self._test_bound(),
            "evaluations": self._evaluations,
            "milliseconds": 1e3 * self.seconds_since_line / count,
        }
        self.objective_sum = self.seconds_since_line = 0.0
        # Without NaN and infinity, which JSON cannot store.
        return {name: value for name, value in line.items() if math.isfinite(value)}

    def _variances(self, images: Tensor) -> dict[str, float]:
        """Variance of the gradient with respect to the logits, at one batch."""
        stream = torch.Generator(self.device).manual_seed(self.settings.seed + 1 + self.step)
        found = gradient_variance(self.estimator, self.model, images, REPETITIONS, stream)
        line = {"gradient_variance": found}
        # One contribution has no variance.
        if isinstance(self.estimator, ScoreFunction) and self.estimator.samples > 1:
            of_samples = contribution_variance(self.estimator, self.model, images, stream)
            line["contribution_variance"] = of_samples
        return line

    def _test_bound(self) -> dict[str, float]:
        """Bound on some test images, every ``eval_every`` steps."""
        every = self.settings.eval_every
        if not every or self.step % every:
            return {}
        images = some_of(self.data.test, BOUND_IMAGES)
        return {"test_bound": mean_bound(self.model, images, BOUND_SAMPLES, self.step)[0]}

    def _restore(self, checkpoint: Checkpoint) -> None:
        try:
            self.restore(checkpoint.tensors, checkpoint.step)
        except ValueError as error:
            raise ValueError(
                f"the checkpoint of step {checkpoint.step:,} in {self.directory.path} does not fit "
                f"the run: {error}"
            ) from error


def _warn_of_threads(checkpoint: Checkpoint) -> None:
    now = torch.get_num_threads()
    if checkpoint.threads not in (None, now):
        warnings.warn(
            f"the first {checkpoint.step:,} steps were trained with --threads {checkpoint.threads} "
            f"and the next ones have {now}: sums are rounded in another order, so that the result "
            "is not bit for bit that of a run without a stop",
            stacklevel=3,
        )


def _versions() -> dict[str, str]:
    return {
        "carms": carms.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
