"""The settings of a training run: everything that its result depends on."""

import json
import math
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from carms.estimators import Estimator

__all__ = ["LOGGING", "Settings"]

LOGGING = ("log_every", "eval_every", "checkpoint_every")
"""Names of the settings that have no effect on a result."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run. The defaults are those of the paper.

    The command line shows these texts as its help.

    Attributes:
        task: vae trains an autoencoder, complete predicts the lower half of an image from the
            upper one
        dataset: set of images
        upright: turn Omniglot upright; in its file the images are mirrored at their diagonal
        network: linear has one layer in each direction, nonlinear has hidden layers
        categories: number of categories of a latent variable
        latents: number of latent variables (default: 200 / categories)
        samples: number of samples of a gradient (default: what the paper uses with the
            estimator, in most cases one for each category)
        estimator: name of the gradient estimator, such as loorf; an unknown name
            lists all of them
        options: options of the estimator, for example epsilon=0.1
        batch: number of images in a step
        steps: number of training steps
        rate: learning rate of Adam, for the networks
        prior_rate: learning rate of SGD, for the logits of the prior; the completion task has no
            prior
        seed: seed of all random numbers
        log_every: number of steps from one line of metrics.jsonl to the next
        eval_every: number of steps from one evaluation on a part of the test set to the next, a
            multiple of --log-every; 0 evaluates at the end only
        eval_samples: number of samples of the log likelihood at the end (default: 100, or 1,000 for
            the completion task)
        checkpoint_every: number of steps from one checkpoint to the next
        precision: floating-point format in which the networks compute
    """

    task: Literal["vae", "complete"] = "vae"
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
            raise ValueError(f"latents must be given for {self.categories} categories")
        _estimator_class(self.estimator)
        names = [_option(text)[0] for text in self.options]
        if len(set(names)) < len(names):
            raise ValueError(f"an option is given twice: {' '.join(self.options)}")
        if "samples" in names:
            raise ValueError("samples is a setting of its own, and no option of the estimator")

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
        """Number of samples of the log likelihood at the end."""
        return self.eval_samples or (100 if self.task == "vae" else 1000)

    def make_estimator(self) -> "Estimator":
        """Make the estimator, which checks its options.

        The settings alone do not check them: making an estimator can be costly, and is not needed
        to read about a run.
        """
        from carms.estimators import make

        options = dict(_option(text) for text in self.options)
        return make(self.estimator, samples=self.samples_of(self.estimator), **options)

    @property
    def usual_samples(self) -> int:
        """The number of samples that the paper uses."""
        return _estimator_class(self.estimator).usual_samples(self.categories)

    def samples_of(self, estimator: str) -> int:
        """The number of samples that this run would use with an estimator."""
        return self.samples or _estimator_class(estimator).usual_samples(self.categories)

    @staticmethod
    def from_json(config: dict[str, Any]) -> "Settings":
        """Make settings of what ``to_json`` wrote."""
        unknown = set(config) - {field.name for field in fields(Settings)}
        if unknown or "options" not in config:
            what = f"there is {', '.join(sorted(unknown))}" if unknown else "there are no options"
            raise ValueError(f"these are not the settings of a run: {what}")
        options = config["options"]
        # Anything but a list is refused, with its name, by the check of kinds.
        options = tuple(options) if isinstance(options, list) else options
        return Settings(**{**config, "options": options})

    def to_json(self) -> dict[str, Any]:
        """Make a dictionary of every setting, with types that JSON has."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


_LEAST = {
    **dict.fromkeys(("latents", "samples", "batch", "steps", "log_every", "eval_samples"), 1),
    "categories": 2,
    "checkpoint_every": 1,
    "eval_every": 0,
    "seed": 0,
}


def _estimator_class(name: str) -> "type[Estimator]":
    # Imported on use: settings are part of the command line, whose help has no need of torch.
    from carms.estimators import find

    return find(name)


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Settings)


def _check_kind(name: str, value: Any, usual: Any) -> None:
    """Raise if a value is not what its annotation says: nothing else checks files."""
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
    """Split ``epsilon=0.1`` into a name and a value, which is JSON or else a string."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"an option of an estimator is name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return name, value
