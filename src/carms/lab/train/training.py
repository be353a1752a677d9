"""Train a run from where it is to its end."""

import math
import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

import carms
from carms.estimators.families.score_function import ScoreFunction
from carms.lab.data.datasets import Dataset, load, some_of
from carms.lab.figures.images import draw_images
from carms.lab.figures.png import read_picture
from carms.lab.models.completion import Completion
from carms.lab.models.latent import LatentModel
from carms.lab.models.vae import DiscreteVae
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import Checkpoint, RunDirectory
from carms.lab.train.adam import Adam
from carms.lab.train.evaluation import OnPart, binarised, evaluate, mean_bound
from carms.lab.train.variance import contribution_variance, gradient_variance

__all__ = ["InterruptedRunError", "Trainer"]

# Independent gradients at a fixed batch, of which a logged variance is made.
REPETITIONS = 10
# Of learned estimators.
LEARNED_RATE = 1e-3
# Signals on which a run keeps a checkpoint and stops; not every system has the last.
STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

MODELS: dict[str, type[DiscreteVae] | type[Completion]] = {
    "vae": DiscreteVae,
    "complete": Completion,
}


class InterruptedRunError(Exception):
    """The run was asked to stop, and can be resumed."""


class Trainer:
    """One run: its model, its random streams, and the directory that remembers them.

    Args:
        settings: what to run.
        path: where to keep it.
        device: where to compute.
        data: the images; those of the settings, from where data sets are, unless given.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        device: torch.device | str = "cpu",
        data: Dataset | None = None,
    ) -> None:
        self.settings, self.device = settings, torch.device(device)
        # Options that it does not take are an error before anything is written.
        self.estimator = settings.make_estimator()
        self.data = data or load(settings.dataset, upright=settings.upright)
        self.train = self.data.train.to(self.device)
        self.directory = RunDirectory(path, settings.to_json())
        # Training draws from one stream, whose state is kept; all else has streams of its own.
        self.stream = torch.Generator(self.device).manual_seed(settings.seed)
        mean = self.train.double().mean(0).div(255).float()
        self.model = _model_of(settings, mean.cpu()).to(self.device)
        self._shape_lazy_parameters()
        networks = [*self.model.encoder.parameters(), *self.model.decoder.parameters()]
        learned = [*self.estimator.parameters()]
        # The prior has none: it follows its gradient as it is.
        self.optimisers = {"adam": Adam(networks, settings.rate)}
        if learned:
            self.optimisers["learned"] = Adam(learned, LEARNED_RATE)
        self._parameters = [*self.model.parameters(), *learned]
        self.step = 0
        # Since the last line of metrics.
        self.objective = self.seconds = 0.0
        self.seconds_in_all = 0.0
        self._evaluations = 0

    @staticmethod
    def of_run(
        path: Path, device: torch.device | str = "cpu", step: int | None = None
    ) -> "Trainer":
        """The run in a directory, as its last good checkpoint has it, or that of a step."""
        config = RunDirectory.config_of(path)
        if config is None:
            raise ValueError(f"there is no run in {path}")
        settings = Settings.from_json(config)
        # Before the model is built, of a size that the checkpoint has yet to confirm.
        checkpoint = RunDirectory(path, settings.to_json()).checkpoint(step)
        trainer = Trainer(settings, path, device)
        trainer._restore(checkpoint)
        return trainer

    def run(
        self,
        on_line: Callable[[dict[str, Any]], None] = lambda line: None,
        on_part: OnPart = lambda done, total: None,
        patience: float = 0.0,
    ) -> dict[str, Any]:
        """Train to the end, evaluate, and give what ``result.json`` has; at once if it is there.

        Args:
            on_line: is given each line of metrics.
            on_part: is told how many images are evaluated, and of how many.
            patience: seconds to wait for another process that is training this run.
        """
        with self.directory.held(patience):
            if self.directory.result is None:
                checkpoint = self.directory.resume()
                if checkpoint is not None:
                    self._restore(checkpoint)
                with _pending_signals() as pending:
                    self._train(on_line, pending)
                if pending:
                    name = signal.Signals(pending[0]).name
                    raise InterruptedRunError(
                        f"{name} at step {self.step}; the same command goes on"
                    )
                self._finish(on_part)
        result = self.directory.result
        assert result is not None
        return result

    def draw_missing(self) -> list[Path]:
        """Draw the pictures of a finished run again if one of them is missing or torn."""
        paths = [self.directory.path / f"{name}.png" for name in self.model.picture_names]
        if all(map(read_picture, paths)):
            return []
        with self.directory.held():
            checkpoint = self.directory.last_checkpoint()
            if checkpoint is None:
                warnings.warn(
                    f"{self.directory.path} has no checkpoint from which to draw its pictures",
                    stacklevel=2,
                )
                return []
            self._restore(checkpoint)
            return draw_images(self.model, self.data, self.directory.path)

    def _finish(self, on_part: OnPart) -> None:
        settings = self.settings
        started = time.perf_counter()
        result = evaluate(
            self.model, self.data, settings.likelihood_samples, settings.seed, on_part
        )
        seconds = {
            "training_seconds": self.seconds_in_all,
            "evaluation_seconds": time.perf_counter() - started,
        }
        # The result comes last: with it the run is over, and nobody would draw.
        draw_images(self.model, self.data, self.directory.path)
        self.directory.finish({"step": self.step, **result, **seconds, "versions": _versions()})

    def _train(self, on_line: Callable[[dict[str, Any]], None], pending: list[int]) -> None:
        """Take the steps that are left; stop with a checkpoint as soon as a signal is pending."""
        settings = self.settings
        with _events(self.directory.path / "tensorboard", self.step + 1) as writer:
            while self.step < settings.steps:
                images = self.one_step()
                last = self.step == settings.steps
                line = None
                if self.step % settings.log_every == 0 or last:
                    line = self._line(images)
                    self.directory.log(line)
                    for name, number in line.items():
                        writer.add_scalar(name, number, self.step)
                stopping = bool(pending)
                if self.step % settings.checkpoint_every == 0 or last or stopping:
                    self.directory.save(self.step, self._state())
                # After the checkpoint: whoever was told of lines may be gone, with the terminal.
                if line is not None:
                    on_line(line)
                if stopping:
                    return

    def one_step(self) -> Tensor:
        """Take the next images, which are returned, and change the parameters once."""
        started = time.perf_counter()
        index, images = self._batch(self.step)
        value = self._update(images)
        self.step += 1
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the objective is {value} at step {self.step}, for the images "
                f"{index.tolist()} of the training set"
            )
        self.objective += value
        seconds = time.perf_counter() - started
        self.seconds += seconds
        self.seconds_in_all += seconds
        return images

    def _line(self, images: Tensor) -> dict[str, float]:
        """What is logged of the steps since the last line, which then begin anew."""
        count = (self.step - 1) % self.settings.log_every + 1
        line = {
            "step": self.step,
            "objective": self.objective / count,
            **self._variances(images),
            **self._test_bound(),
            "evaluations": self._evaluations,
            "milliseconds": 1e3 * self.seconds / count,
        }
        self.objective = self.seconds = 0.0
        # JSON has no other numbers.
        return {name: value for name, value in line.items() if math.isfinite(value)}

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Which images come at a step, and their pixels drawn anew: each epoch in its own order."""
        size = self.settings.batch
        per_epoch = max(1, len(self.train) // size)
        epoch, place = divmod(step, per_epoch)
        if place == 0 or not hasattr(self, "_order"):
            order = torch.Generator().manual_seed((self.settings.seed << 32) + epoch)
            self._order = torch.randperm(len(self.train), generator=order)
        index = self._order[place * size : (place + 1) * size]
        return index, binarised(self.train.index_select(0, index.to(self.device)), self.stream)

    def _update(self, images: Tensor) -> float:
        with self._precision():
            logits = self.model.logits(images)
            elbo = self.model.objective(images, logits, self.estimator)

            def counted(z: Tensor) -> Tensor:
                self._evaluations = len(z)
                return elbo(z)

            value = self.estimator.expectation(counted, logits, self.stream).mean()
        for parameter in self._parameters:
            parameter.grad = None
        # The objective is to grow; this spares the graph a node for the sign.
        value.backward(torch.full_like(value, -1))
        for optimiser in self.optimisers.values():
            optimiser.step()
        prior = self.model.prior
        if prior is not None and prior.grad is not None:
            with torch.no_grad():
                prior.sub_(prior.grad, alpha=self.settings.prior_rate)
        return value.item()

    def _precision(self) -> AbstractContextManager[None]:
        if self.settings.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _variances(self, images: Tensor) -> dict[str, float]:
        """Of the gradient with respect to the logits, at the same batch."""
        stream = torch.Generator(self.device).manual_seed(self.settings.seed + 1 + self.step)
        found = gradient_variance(self.estimator, self.model, images, REPETITIONS, stream)
        line = {"gradient_variance": found}
        # One contribution has no variance.
        if isinstance(self.estimator, ScoreFunction) and self.estimator.samples > 1:
            paper = contribution_variance(self.estimator, self.model, images, stream)
            line["contribution_variance"] = paper
        return line

    def _test_bound(self) -> dict[str, float]:
        every = self.settings.eval_every
        if not every or self.step % every:
            return {}
        images = some_of(self.data.test, 1000)
        return {"test_bound": mean_bound(self.model, images, 10, self.step)[0]}

    def _shape_lazy_parameters(self) -> None:
        """Some learned estimators have parameters only after their first call."""
        self.estimator.to(self.device)
        if self.estimator.learned:
            logits = torch.zeros(1, *self.settings.shape, device=self.device, requires_grad=True)
            stream = torch.Generator(self.device).manual_seed(0)
            self.estimator.expectation(lambda z: z.sum((-2, -1)), logits, stream)

    def _state(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for name, value in self.estimator.state_dict().items():
            tensors[f"estimator.{name}"] = value
        for which, optimiser in self.optimisers.items():
            for name, value in optimiser.state().items():
                tensors[f"{which}.{name}"] = value
        tensors["stream"] = self.stream.get_state()
        tensors["progress"] = torch.tensor(
            [self.objective, self.seconds, self.seconds_in_all], dtype=torch.float64
        )
        return tensors

    def _misfit(self, tensors: Mapping[str, Tensor]) -> str | None:
        """Why tensors are not a state of this run; None if they are."""
        expected = self._state()
        for name in sorted({*expected, *tensors}):
            if name not in tensors:
                return f"{name} is missing"
            if name not in expected:
                return f"it has no {name}"
            found, own = tensors[name], expected[name]
            if (found.dtype, found.shape) != (own.dtype, own.shape):
                return f"{name} is {_kind(found)}, expected {_kind(own)}"
        try:
            torch.Generator(self.device).set_state(tensors["stream"])
        except RuntimeError as error:
            return f"stream is no state of a generator ({str(error).splitlines()[0]})"
        return None

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        misfit = self._misfit(tensors)
        if misfit is not None:
            raise ValueError(
                f"the checkpoint of step {checkpoint.step:,} in {self.directory.path} does not fit "
                f"the run: {misfit}"
            )

        def part(prefix: str) -> dict[str, Tensor]:
            return {
                name.removeprefix(prefix): value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }

        self.model.load_state_dict(part("model."))
        self.estimator.load_state_dict(part("estimator."))
        for which, optimiser in self.optimisers.items():
            optimiser.restore(part(f"{which}."))
        self.stream.set_state(tensors["stream"])
        self.objective, self.seconds, self.seconds_in_all = tensors["progress"].tolist()
        self.step = checkpoint.step


def _model_of(settings: Settings, mean: Tensor) -> LatentModel:
    """The model with its first weights, or an error if there cannot be one of that size."""
    weights = torch.Generator().manual_seed(settings.seed)
    try:
        return MODELS[settings.task](settings.shape, settings.network, mean, weights)
    except (RuntimeError, TypeError, MemoryError) as error:
        variables, categories = settings.shape
        raise ValueError(
            f"a model of {variables:,} variables with {categories:,} categories cannot be built "
            f"here: {str(error).splitlines()[0]}"
        ) from error


@contextmanager
def _events(directory: Path, first: int) -> Iterator[SummaryWriter]:
    """Write TensorBoard's files from that step on.

    They are written by a thread. What it meets is raised here, and need not be printed there.
    """
    printed, met = threading.excepthook, list[BaseException | None]()
    threading.excepthook = lambda error: met.append(error.exc_value)
    try:
        with closing(SummaryWriter(str(directory), purge_step=first)) as writer:
            yield writer
    except OSError as error:
        if error not in met:
            raise
        raise OSError(error.errno, f"cannot write {directory}: {error.strerror}") from error
    finally:
        threading.excepthook = printed


@contextmanager
def _pending_signals() -> Iterator[list[int]]:
    """Collect signals that ask to stop, to be acted upon where it is safe.

    Those that are ignored stay so, as ``nohup`` wants it. Only the main thread can do this.
    """
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return

    def note(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    before = {
        number: signal.signal(number, note)
        for number in STOPPING
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _versions() -> dict[str, str]:
    return {
        "carms": carms.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
