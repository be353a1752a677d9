"""What a training run is: everything that its result depends on."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import tyro

from carms.estimators import Estimator, make

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """A run. The defaults are those of the paper.

    Attributes:
        task: ``"vae"``, or ``"complete"``: the lower half of an image from the upper one.
        dataset: dynamic-mnist, fashion-mnist, omniglot, static-mnist or digits.
        upright: no-upright leaves Omniglot mirrored at its diagonal, as it is in its file.
        network: with hidden layers, or one layer each way.
        categories: per latent variable.
        latents: variables; 200 / categories unless told.
        samples: per gradient; as many as categories unless told, but one for arsm.
        estimator: a name from ``carms.available()``.
        options: of the estimator, as ``name=value``.
        batch: images per step.
        steps: of training.
        rate: of Adam, for the networks.
        prior_rate: of SGD, for the logits of the prior.
        seed: of everything that is left to chance.
        log_every: steps between lines of ``metrics.jsonl``.
        eval_every: steps between evaluations on a part of the test set; 0 for none.
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
        for name in ("categories", "latents", "batch", "steps", "log_every", "eval_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.eval_every < 0 or self.checkpoint_every < 1:
            raise ValueError("eval_every must not be negative, and checkpoint_every at least 1")
        self.make_estimator()

    @property
    def shape(self) -> tuple[int, int]:
        """``(D, C)``."""
        return self.latents or 200 // self.categories, self.categories

    @property
    def likelihood_samples(self) -> int:
        """Of the log likelihood at the end."""
        return self.eval_samples or (100 if self.task == "vae" else 1000)

    def make_estimator(self) -> Estimator:
        """The estimator, with its options."""
        options = dict(_option(text) for text in self.options)
        # One draw of ARSM is worth about two evaluations per category.
        usual = 1 if self.estimator == "arsm" else self.categories
        return make(self.estimator, samples=self.samples or usual, **options)

    @staticmethod
    def from_json(config: dict[str, Any]) -> "Settings":
        """What ``to_json`` wrote."""
        return Settings(**{**config, "options": tuple(config["options"])})

    def to_json(self) -> dict[str, Any]:
        """Every setting, as JSON knows it."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


def _option(text: str) -> tuple[str, Any]:
    """``orderings=one`` or ``epsilon=0.1``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"an option of an estimator is name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
