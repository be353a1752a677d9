"""Train a run from where it is to its end."""

import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

import carms
from carms.estimators.drawing import ScoreFunction
from carms.lab.adam import Adam
from carms.lab.completion import Completion
from carms.lab.data import Dataset, load, some_of
from carms.lab.evaluation import OnPart, binarised, evaluate, mean_bound
from carms.lab.latent import LatentModel
from carms.lab.settings import Settings
from carms.lab.store import RunDirectory
from carms.lab.vae import DiscreteVae
from carms.lab.variance import contribution_variance, gradient_variance

__all__ = ["InterruptedRunError", "Trainer"]

# Independent gradients at a fixed batch, of which a logged variance is made.
REPETITIONS = 10
# Of learned estimators.
LEARNED_RATE = 1e-3


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
        weights = torch.Generator().manual_seed(settings.seed)
        self.model: LatentModel = MODELS[settings.task](
            settings.shape, settings.network, mean.cpu(), weights
        ).to(self.device)
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
        trainer = Trainer(Settings.from_json(config), path, device)
        checkpoint = trainer.directory.checkpoint(step)
        trainer._restore(checkpoint.tensors)
        trainer.step = checkpoint.step
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
                    self._restore(checkpoint.tensors)
                    self.step = checkpoint.step
                with _signals_noted() as noted:
                    self._train(on_line, noted)
                self._finish(on_part)
        result = self.directory.result
        assert result is not None
        return result

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
        self.directory.finish({"step": self.step, **result, **seconds, "versions": _versions()})

    def _train(self, on_line: Callable[[dict[str, Any]], None], noted: list[int]) -> None:
        settings = self.settings
        writer = SummaryWriter(str(self.directory.path / "tensorboard"), purge_step=self.step + 1)
        with closing(writer):
            while self.step < settings.steps:
                images = self.one_step()
                last = self.step == settings.steps
                if self.step % settings.log_every == 0 or last:
                    line = self._line(images)
                    self.directory.log(line)
                    for name, number in line.items():
                        writer.add_scalar(name, number, self.step)
                    on_line(line)
                if self.step % settings.checkpoint_every == 0 or last or noted:
                    self.directory.save(self.step, self._state())
                if noted and not last:
                    name = signal.Signals(noted[0]).name
                    raise InterruptedRunError(
                        f"{name} at step {self.step}; the same command goes on"
                    )

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
        return line

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
        if isinstance(self.estimator, ScoreFunction):
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

    def _restore(self, tensors: dict[str, Tensor]) -> None:
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
        self.stream.set_state(tensors["stream"].cpu())
        self.objective, self.seconds, self.seconds_in_all = tensors["progress"].tolist()


@contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """SIGINT and SIGTERM go to a list, to be acted upon where it is safe; only the main thread can
    have it so.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _versions() -> dict[str, str]:
    return {
        "carms": carms.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
