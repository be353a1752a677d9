"""What a training run is: everything that its result depends on."""

import json
import math
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from carms.estimators import Estimator, find, make

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """A run. The defaults are those of the paper.

    Attributes:
        task: ``"vae"``, or ``"complete"``: the lower half of an image from the upper one.
        dataset: dynamic-mnist, fashion-mnist, omniglot, static-mnist or digits.
        upright: no-upright leaves Omniglot mirrored at its diagonal, as it is in its file.
        network: one layer each way, or with hidden layers.
        categories: per latent variable.
        latents: variables; 200 / categories unless told.
        samples: per gradient; as many as categories unless told, but one for arsm and at most seven
            for unord, as in the paper.
        estimator: a name from ``carms.available()``.
        options: of the estimator, as ``name=value``.
        batch: images per step.
        steps: of training.
        rate: of Adam, for the networks.
        prior_rate: of SGD, for the logits of the prior; the completion task has none.
        seed: of everything that is left to chance.
        log_every: steps between lines of ``metrics.jsonl``.
        eval_every: steps between evaluations on a part of the test set, a multiple of log_every; 0
            for none.
        eval_samples: samples of the log likelihood at the end; 100, or 1,000 to complete.
        checkpoint_every: steps between checkpoints.
        precision: of the networks.
    """

    task: Annotated[Literal["vae", "complete"], tyro.conf.Suppress] = "vae"
    dataset: Literal["dynamic-mnist", "fashion-mnist", "omniglot", "static-mnist", "digits"] = (
        "dynamic-mnist"
    )
    upright: bool = True
    network: Literal["linear", "nonlinear"] = "nonlinear"
    categories: int = 10
    latents: int | None = None
    samples: int | None = None
    estimator: str = "carms-s"
    options: tuple[str, ...] = ()
    batch: int = 50
    steps: int = 1_000_000
    rate: float = 1e-4
    prior_rate: float = 1e-2
    seed: int = 0
    log_every: int = 1000
    eval_every: int = 0
    eval_samples: int | None = None
    checkpoint_every: int = 10_000
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_kind(field.name, getattr(self, field.name), field.default)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
            if value is not None and value >= 2**63:
                raise ValueError(f"{name} must be below 2^63, got {value}")
        for name in ("rate", "prior_rate"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {value}")
        if self.seed >= 2**31:
            raise ValueError(f"seed must be below 2^31, got {self.seed}")
        if self.eval_every % self.log_every:
            raise ValueError(
                f"eval_every must be a multiple of log_every, which is {self.log_every}, got "
                f"{self.eval_every}"
            )
        if not self.shape[0]:
            raise ValueError(f"latents must be told for {self.categories} categories")
        find(self.estimator)
        for text in self.options:
            _option(text)

    @property
    def shape(self) -> tuple[int, int]:
        """``(D, C)``."""
        return self.latents or self.usual_latents, self.categories

    @property
    def usual_latents(self) -> int:
        """Number of latent variables in the paper; zero where it has none."""
        return 200 // self.categories

    @property
    def likelihood_samples(self) -> int:
        """Of the log likelihood at the end."""
        return self.eval_samples or (100 if self.task == "vae" else 1000)

    def make_estimator(self) -> Estimator:
        """Make the estimator, which checks its options.

        Settings alone do not: it may be costly to make, and nobody needs it to read about a run.
        """
        options = dict(_option(text) for text in self.options)
        return make(self.estimator, samples=self.samples_of(self.estimator), **options)

    @property
    def usual_samples(self) -> int:
        """The number of samples that the paper uses."""
        return find(self.estimator).usual_samples(self.categories)

    def samples_of(self, estimator: str) -> int:
        """The number of samples of a gradient of the run, or of one by another estimator."""
        return self.samples or find(estimator).usual_samples(self.categories)

    @staticmethod
    def from_json(config: dict[str, Any]) -> "Settings":
        """What ``to_json`` wrote."""
        unknown = set(config) - {field.name for field in fields(Settings)}
        if unknown or "options" not in config:
            what = f"there is {', '.join(sorted(unknown))}" if unknown else "there are no options"
            raise ValueError(f"these are not the settings of a run: {what}")
        options = config["options"]
        # Another kind is named by the check of kinds.
        options = tuple(options) if isinstance(options, list) else options
        return Settings(**{**config, "options": options})

    def to_json(self) -> dict[str, Any]:
        """Every setting, as JSON knows it."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


_LEAST = {
    **dict.fromkeys(("latents", "samples", "batch", "steps", "log_every", "eval_samples"), 1),
    "categories": 2,
    "checkpoint_every": 1,
    "eval_every": 0,
    "seed": 0,
}


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Settings)


def _check_kind(name: str, value: Any, usual: Any) -> None:
    """That a value is what its annotation says: files are not checked by anybody else."""
    hint = _hints()[name]
    # A run of another version may have another data set, and can still be read.
    if get_origin(hint) is Literal and name != "dataset":
        if value not in get_args(hint):
            raise ValueError(f"{name} is one of {', '.join(get_args(hint))}; got {value!r}")
        return
    kinds = {float: (float, int), type(None): (int, type(None))}.get(type(usual), (type(usual),))
    strings = not isinstance(value, tuple) or all(isinstance(one, str) for one in value)
    if type(value) not in kinds or not strings:
        names = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be {names}, got {value!r}")


def _option(text: str) -> tuple[str, Any]:
    """``orderings=largest-first`` or ``epsilon=0.1``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"an option of an estimator is name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return name, value
