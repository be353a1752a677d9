"""Trained models, and the estimators that are measured on them."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from shelf import for_any_categories, one_is_plenty
from torch import Tensor

import carms
from carms.estimators import Estimator, find
from carms.lab.data.datasets import binarised, some_of
from carms.lab.models.latent import LatentModel
from carms.lab.runs.settings import Settings
from carms.lab.train.training import Trainer

# Evaluations per gradient; unord has seven, as in the paper.
SAMPLES = 10
MODELS = {
    "digits": Settings(
        dataset="digits",
        rate=1e-3,
        steps=2400,
        log_every=100,
        eval_every=200,
        checkpoint_every=800,
    ),
    "mnist-linear": Settings(network="linear", steps=12_000),
    "mnist-nonlinear": Settings(network="nonlinear", steps=12_000),
}
# Rows for options, beside those for names alone.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "carms-t, 5 neighbours": ("carms-t", {"neighbours": 5}),
    "gapped-st, coupled": ("gapped-st", {"coupling": "circular"}),
    "reinforce, running mean": ("reinforce", {"baseline": "running-mean"}),
    "reinmax, coupled": ("reinmax", {"coupling": "circular"}),
    "straight-through, coupled": ("straight-through", {"coupling": "circular"}),
}
# Images of a model whose gradients are measured.
IMAGES = 50


@dataclass(frozen=True)
class Problem:
    """A trained model, and the images whose gradient is measured."""

    model: LatentModel
    images: Tensor


def make(label: str) -> Estimator:
    """The estimator of a row."""
    name, options = VARIANTS.get(label, (label, {}))
    samples = 1 if one_is_plenty(name) else find(name).usual_samples(SAMPLES)
    return carms.make(name, samples=samples, **options)


def choose(only: list[str] | None) -> list[str]:
    """Labels of the rows to measure, LOORF always among them."""
    labels = sorted([*for_any_categories(), *VARIANTS])
    unknown = set(only or []) - set(labels)
    if unknown:
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(labels)}")
    return [label for label in labels if only is None or label in only or label == "loorf"]


def trained(name: str, folder: Path) -> Problem:
    """A trained model; it is trained first if ``folder`` does not have it."""
    settings, path = MODELS[name], folder / name

    def tell(line: dict[str, Any]) -> None:
        print(f"training {name}: step {line['step']} of {settings.steps}", file=sys.stderr)

    Trainer(settings, path).run(tell)
    trainer = Trainer.of_run(path)
    pixels = some_of(trainer.train_images, IMAGES)
    return Problem(trainer.model, binarised(pixels, torch.Generator().manual_seed(0)))
