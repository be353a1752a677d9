"""Train a run from where it is to its end."""

import math
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

import carms
from carms.lab.data import Dataset, load
from carms.lab.models import DiscreteVae
from carms.lab.settings import Settings
from carms.lab.store import RunDirectory

__all__ = ["InterruptedRunError", "Trainer", "evaluate"]

# Independent gradients at a fixed batch, of which a logged variance is made.
REPETITIONS = 10
# Images that are evaluated at a time.
CHUNK = 250
# Of learned estimators.
LEARNED_RATE = 1e-3


class InterruptedRunError(Exception):
    """The run was asked to stop, and can be resumed."""


class Trainer:
    """One run: its model, its random streams, and the directory that remembers them.

    Args:
        settings: what to run.
        path: where to keep it.
        device: where to compute.
        data_root: where the data sets are.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        device: torch.device | str = "cpu",
        data_root: Path | None = None,
    ) -> None:
        self.settings, self.device = settings, torch.device(device)
        self.data = load(settings.dataset, data_root)
        self.train = self.data.train.to(self.device)
        self.directory = RunDirectory(path, settings.to_json())
        # Training draws from one stream, whose state is kept; all else has streams of its own.
        self.stream = torch.Generator(self.device).manual_seed(settings.seed)
        mean = self.train.double().mean(0).div(255).float()
        weights = torch.Generator().manual_seed(settings.seed)
        self.model = DiscreteVae(
            self.train.shape[1], settings.shape, settings.network, mean.cpu(), weights
        ).to(self.device)
        self.estimator = settings.make_estimator()
        self._shape_lazy_parameters()
        self.optimisers = self._make_optimisers()
        groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        self.step = 0
        # Since the last line of metrics.
        self.objective = self.seconds = 0.0
        self._evaluations = 0

    @staticmethod
    def of_run(path: Path, device: torch.device | str = "cpu") -> "Trainer":
        """The run in a directory, as its last good checkpoint has it."""
        config = RunDirectory.config_of(path)
        if config is None:
            raise ValueError(f"there is no run in {path}")
        trainer = Trainer(Settings.from_json(config), path, device)
        checkpoint = trainer.directory.last_checkpoint()
        if checkpoint is None:
            raise ValueError(f"the run in {path} has no checkpoint yet")
        trainer._restore(checkpoint.tensors)
        trainer.step = checkpoint.step
        return trainer

    def run(self, on_line: Callable[[dict[str, Any]], None] = lambda line: None) -> dict[str, Any]:
        """Train to the end, and give what ``result.json`` has; at once if it is there already."""
        if self.directory.result is not None:
            return self.directory.result
        checkpoint = self.directory.resume()
        if checkpoint is not None:
            self._restore(checkpoint.tensors)
            self.step = checkpoint.step
        with _signals_noted() as noted:
            self._train(on_line, noted)
        settings = self.settings
        result = evaluate(self.model, self.data, settings.eval_samples, settings.seed)
        self.directory.finish({"step": self.step, **result, "versions": _versions()})
        final = self.directory.result
        assert final is not None
        return final

    def _train(self, on_line: Callable[[dict[str, Any]], None], noted: list[int]) -> None:
        settings = self.settings
        writer = SummaryWriter(str(self.directory.path / "tensorboard"), purge_step=self.step + 1)
        with closing(writer):
            while self.step < settings.steps:
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
                self.seconds += time.perf_counter() - started
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

    def _line(self, images: Tensor) -> dict[str, float]:
        """What is logged of the steps since the last line, which then begin anew."""
        count = (self.step - 1) % self.settings.log_every + 1
        line = {
            "step": self.step,
            "objective": self.objective / count,
            **self._gradient_variance(images),
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
            elbo = self.model.log_weight(images, logits)

            def counted(z: Tensor) -> Tensor:
                self._evaluations = len(z)
                return elbo(z)

            value = self.estimator.expectation(counted, logits, self.stream).mean()
        for parameter in self._parameters:
            parameter.grad = None
        (-value).backward()
        for optimiser in self.optimisers:
            optimiser.step()
        return value.item()

    def _precision(self) -> torch.autocast:
        half = self.settings.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    def _gradient_variance(self, images: Tensor) -> dict[str, float]:
        """Of the gradient with respect to the logits, over repetitions at the same batch."""
        stream = torch.Generator(self.device).manual_seed(self.settings.seed + 1 + self.step)
        logits = self.model.logits(images).detach()
        rows = []
        for _ in range(REPETITIONS):
            leaf = logits.clone().requires_grad_()
            elbo = self.model.log_weight(images, leaf)
            value = self.estimator.expectation(elbo, leaf, stream)
            rows.append(torch.autograd.grad(value.sum(), leaf)[0])
        variance = torch.stack(rows).var(0).sum((-2, -1)).mean()
        return {"gradient_variance": variance.item()}

    def _test_bound(self) -> dict[str, float]:
        every = self.settings.eval_every
        if not every or self.step % every:
            return {}
        return {"test_bound": mean_bound(self.model, self.data.test[:1000], 10, self.step)[0]}

    def _shape_lazy_parameters(self) -> None:
        """Some learned estimators have parameters only after their first call."""
        if isinstance(self.estimator, nn.Module):
            self.estimator.to(self.device)
            logits = torch.zeros(1, *self.settings.shape, device=self.device, requires_grad=True)
            stream = torch.Generator(self.device).manual_seed(0)
            self.estimator.expectation(lambda z: z.sum((-2, -1)), logits, stream)

    def _make_optimisers(self) -> list[torch.optim.Optimizer]:
        networks = [*self.model.encoder.parameters(), *self.model.decoder.parameters()]
        groups: list[dict[str, Any]] = [{"params": networks}]
        if isinstance(self.estimator, nn.Module) and [*self.estimator.parameters()]:
            groups.append({"params": [*self.estimator.parameters()], "lr": LEARNED_RATE})
        return [
            torch.optim.Adam(groups, lr=self.settings.rate, eps=1e-7, fused=True),
            torch.optim.SGD([self.model.prior], lr=self.settings.prior_rate),
        ]

    def _state(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if isinstance(self.estimator, nn.Module):
            for name, value in self.estimator.state_dict().items():
                tensors[f"estimator.{name}"] = value
        for number, state in self.optimisers[0].state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"adam.{number}.{name}"] = value
        tensors["stream"] = self.stream.get_state()
        tensors["since_last_line"] = torch.tensor(
            [self.objective, self.seconds], dtype=torch.float64
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
        if isinstance(self.estimator, nn.Module):
            self.estimator.load_state_dict(part("estimator."))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in part("adam.").items():
            number, _, field = name.partition(".")
            state.setdefault(int(number), {})[field] = value
        groups = self.optimisers[0].state_dict()["param_groups"]
        self.optimisers[0].load_state_dict({"state": state, "param_groups": groups})
        self.stream.set_state(tensors["stream"].cpu())
        self.objective, self.seconds = tensors["since_last_line"].tolist()


def binarised(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Ones with probability ``pixels / 255``, exactly, as floats."""
    threshold = torch.randint(
        255, pixels.shape, dtype=torch.uint8, device=pixels.device, generator=generator
    )
    return (threshold < pixels).float()


def mean_bound(model: DiscreteVae, pixels: Tensor, samples: int, seed: int) -> tuple[float, float]:
    """The bound over a data set with its Monte Carlo standard error."""
    device = model.prior.device
    stream = torch.Generator(device).manual_seed(seed)
    found = []
    for part in pixels.split(CHUNK):
        images = binarised(part.to(device), stream)
        found.append(model.bound(images, samples, stream).double())
    bounds = torch.cat(found)
    return bounds.mean().item(), (bounds.std() / len(bounds) ** 0.5).item()


def evaluate(model: DiscreteVae, data: Dataset, samples: int, seed: int) -> dict[str, float]:
    """Log likelihood bounds of the training and the test set."""
    result: dict[str, float] = {}
    for name, pixels in (("train", data.train), ("test", data.test)):
        bound, error = mean_bound(model, pixels, samples, seed)
        result |= {f"{name}_log_likelihood": bound, f"{name}_standard_error": error}
    return result


@contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """SIGINT and SIGTERM go to a list, to be acted upon where it is safe."""
    noted: list[int] = []

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
