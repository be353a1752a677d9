"""Time of a whole training step of the lab and of an evaluation, relative to their matrix products.

A step is everything that happens between two steps: choosing and binarising images, network,
estimator, optimisers, and its share of the logging. The products are those of its dense layers
alone: forward, and both of the backward pass.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from timing import interleaved, print_table
from torch import Tensor, nn

from carms.lab.data.datasets import Dataset
from carms.lab.models.latent import CHUNK as SAMPLES
from carms.lab.runs.settings import Settings
from carms.lab.train.evaluation import CHUNK as IMAGES
from carms.lab.train.evaluation import mean_bound
from carms.lab.train.training import Trainer

# Network, categories, estimator, and what the ratio should reach.
STEPS = (
    ("nonlinear", 10, "loorf", "1.40"),
    ("nonlinear", 10, "carms-s", "1.55"),
    ("linear", 3, "loorf", "1.70"),
    ("linear", 3, "carms-s", ""),
)
# Milliseconds of the authors' TensorFlow program, linear network, one core of a like machine, and
# how many times faster we want to be.
AUTHORS = (
    ("loorf", {3: 8.9, 5: 11.0, 10: 13.0}, {3: 2.5}),
    ("carms-i", {3: 15.0, 5: 69.0, 10: 492.0}, {3: 4.0, 10: 30.0}),
    ("carms-g", {3: 101.0, 5: 179.0, 10: 303.0}, {3: 7.0, 5: 7.0, 10: 7.0}),
    ("unord", {3: 14.0, 5: 21.0, 10: 27.0}, {}),
    ("arsm", {3: 13.0, 5: 25.0, 10: 74.0}, {}),
)


def synthetic() -> Dataset:
    """Random bytes instead of images: the time of a step does not depend on what they show."""
    source = torch.Generator().manual_seed(0)
    train = torch.randint(256, (5000, 784), dtype=torch.uint8, generator=source)
    return Dataset(train, train[:0], train[:1000], side=28)


def trainer(folder: str, network: str, categories: int, estimator: str) -> Trainer:
    settings = Settings(
        network=network,  # type: ignore[arg-type]
        categories=categories,
        estimator=estimator,
    )
    return Trainer(settings, Path(folder, f"{network}-{categories}-{estimator}"), data=synthetic())


def layers(network: nn.Module, rows: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Input, weight and output gradient of every dense layer, for a number of rows."""
    dense = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    return [
        (
            torch.randn(rows, layer.in_features),
            layer.weight.detach(),
            torch.randn(rows, layer.out_features),
        )
        for layer in dense
    ]


def products(run: Trainer) -> Callable[[], None]:
    """A function that computes the matrix products of a step."""
    batch, samples = run.settings.batch, run.estimator.samples
    all_layers = [
        *layers(run.model.encoder, batch),
        *layers(run.model.decoder, batch * samples),
    ]

    def multiply() -> None:
        for inputs, weight, slope in all_layers:
            inputs @ weight.T
            slope.T @ inputs
            slope @ weight

    return multiply


def steps_against_products(folder: str, rounds: int) -> None:
    rows = []
    for network, categories, estimator, limit in STEPS:
        run = trainer(folder, network, categories, estimator)
        times = interleaved({"step": run.one_step, "products": products(run)}, rounds)
        ratio = times["step"] / times["products"]
        label = f"{network}, C = {categories}, {estimator}"
        rows.append([label, f"{times['step']:.2f}", f"{times['products']:.2f}"])
        rows[-1] += [f"{ratio:.3f}", limit]
    header = ["VAE, batch 50, N = C", "step, ms", "products, ms", "ratio", "limit"]
    print_table("A training step against its matrix products, one thread", header, rows)


def steps_with_slopes(folder: str, rounds: int) -> None:
    rows = []
    for network, limit in (("nonlinear", "1.35"), ("linear", "1.60")):
        runs = {name: trainer(folder, network, 10, name) for name in ("loorf", "carms-t")}
        times = interleaved({name: run.one_step for name, run in runs.items()}, rounds)
        ratio = times["carms-t"] / times["loorf"]
        rows.append([network, *[f"{times[name]:.2f}" for name in runs], f"{ratio:.3f}", limit])
    header = ["VAE, batch 50, C = N = 10", "loorf, ms", "carms-t, ms", "ratio", "limit"]
    print_table("A training step with slopes, one thread", header, rows)


def steps_against_authors(folder: str, rounds: int) -> None:
    rows = []
    for categories in (3, 5, 10):
        for name, theirs, wanted in AUTHORS:
            # One after the other, as in training: their figures are not from this run anyway.
            run = trainer(folder, "linear", categories, name)
            time = interleaved({"step": run.one_step}, rounds)["step"]
            rows.append([f"C = {categories}, {name}", f"{time:.2f}"])
            rows[-1] += [f"{theirs[categories]:.1f}", f"{theirs[categories] / time:.1f}"]
            rows[-1] += [f"{wanted[categories]:.1f}" if categories in wanted else "1.0"]
    header = ["linear VAE, batch 50", "ms", "authors' program, ms", "times faster", "wanted"]
    print_table("A training step against the authors' program, one thread", header, rows)


def evaluation_against_products(folder: str, rounds: int) -> None:
    rows = []
    for network, categories in (("nonlinear", 10), ("linear", 3)):
        run = trainer(folder, network, categories, "loorf")
        pixels = run.data.train[:IMAGES]
        dense = layers(run.model.decoder, IMAGES * SAMPLES)

        def multiply(dense: list[tuple[Tensor, Tensor, Tensor]] = dense) -> None:
            for _ in range(100 // SAMPLES):
                for inputs, weight, _ in dense:
                    inputs @ weight.T

        def bound(run: Trainer = run, pixels: Tensor = pixels) -> None:
            mean_bound(run.model, pixels, 100, seed=0)

        times = interleaved({"bound": bound, "products": multiply}, max(5, rounds // 5))
        share = times["products"] / times["bound"]
        label = f"{network}, C = {categories}"
        rows.append([label, f"{times['bound'] / IMAGES:.3f}", f"{share:.2f}", "0.80"])
    header = ["100 samples", "ms an image", "products' share", "wanted"]
    print_table("Evaluation against the products of its decoder, one thread", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        steps_against_products(folder, rounds)
        steps_with_slopes(folder, rounds)
        steps_against_authors(folder, rounds)
        evaluation_against_products(folder, rounds)


if __name__ == "__main__":
    main()
