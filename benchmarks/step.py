"""Time of a training step of the paper's VAE, relative to the same step with LOORF.

The step is written with the library alone; `lab.py` measures the steps of the lab.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from timing import interleaved, print_table

import carms
from carms.lab.models.vae import DiscreteVae

ESTIMATORS = {
    "loorf": ("loorf", {}),
    "carms-s": ("carms-s", {}),
    "carms-i, one ordering": ("carms-i", {"orderings": "largest-first"}),
    "carms-i, all orderings": ("carms-i", {}),
    "carms-g": ("carms-g", {}),
}
# What the ratios should reach, for categories = samples = 10 and 3.
LIMITS = {
    "carms-s": (1.12, 1.3),
    "carms-i, one ordering": (1.15, 1.3),
    "carms-i, all orderings": (1.7, 1.3),
    "carms-g": (2.0, 2.0),
}
# Network, samples, and what a step of carms-t should reach.
SLOPES = (
    ("nonlinear", 10, 1.4),
    ("nonlinear", 4, 1.5),
    ("nonlinear", 3, 1.5),
    ("linear", 10, 1.6),
    ("linear", 4, 1.5),
    ("linear", 3, 1.5),
)


class Vae:
    """The paper's VAE with batch 50, Adam for the networks and SGD for the prior."""

    def __init__(self, categories: int, network: str = "nonlinear") -> None:
        self.shape = (200 // categories, categories)
        self.images = (torch.rand(50, 784) < 0.2).float()
        self.model = DiscreteVae(
            self.shape, network, self.images.mean(0), torch.Generator().manual_seed(0)
        )
        weights = [*self.model.encoder.parameters(), *self.model.decoder.parameters()]
        self.optimisers = (
            torch.optim.Adam(weights, lr=1e-4, eps=1e-7, fused=True),
            torch.optim.SGD([self.model.prior], lr=1e-2),
        )

    def step(self, estimator: carms.estimators.Estimator) -> None:
        logits = self.model.logits(self.images)
        elbo = self.model.objective(self.images, logits, estimator)
        loss = -estimator.expectation(elbo, logits).mean()
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in self.optimisers:
            optimiser.step()


def overhead(estimator: carms.estimators.Estimator, vae: Vae) -> Callable[[], None]:
    """A function that does only the estimator's part of a step: sampling, weights and gradient."""
    logits = torch.randn(50, *vae.shape, requires_grad=True)
    values = torch.randn(estimator.samples, 50)

    def run() -> None:
        draw = estimator.sample(logits)
        _ = draw.z
        estimator.surrogate(draw, values).sum().backward()
        logits.grad = None

    return run


def steps_with_slopes(rounds: int) -> None:
    rows = []
    for network, samples, limit in SLOPES:
        vae = Vae(10, network)
        names = ("loorf", "carms-t", "reinmax")
        times = interleaved(
            {name: partial(vae.step, carms.make(name, samples=samples)) for name in names}, rounds
        )
        rows.append([f"{network}, N = {samples}"])
        rows[-1] += [f"{times[name]:.2f}" for name in names]
        rows[-1] += [f"{times[name] / times['loorf']:.3f}" for name in names[1:]]
        rows[-1].append(f"{limit:.2f}")
    print_table(
        "Estimators that use slopes, batch 50, C = 10, one thread",
        ["VAE", "loorf, ms", "carms-t, ms", "reinmax, ms", "carms-t ratio", "reinmax", "limit"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    for which, categories in enumerate((10, 3)):
        vae = Vae(categories)
        made = {
            label: carms.make(name, samples=categories, **options)
            for label, (name, options) in ESTIMATORS.items()
        }
        variants: dict[str, Callable[[], object]] = {
            label: partial(vae.step, estimator) for label, estimator in made.items()
        }
        variants["loorf alone"] = overhead(made["loorf"], vae)
        times = interleaved(variants, rounds)
        rows = [
            [
                label,
                f"{times[label]:.2f}",
                f"{times[label] / times['loorf']:.3f}",
                f"{LIMITS[label][which]:.2f}" if label in LIMITS else "",
            ]
            for label in ESTIMATORS
        ]
        share = times["loorf alone"] / times["loorf"]
        rows.append(
            ["loorf's own part of it", f"{times['loorf alone']:.2f}", f"{share:.3f}", "0.15"]
        )
        print_table(
            f"Step of the nonlinear VAE, batch 50, C = N = {categories}, one thread",
            ["estimator", "ms", "ratio to loorf", "limit"],
            rows,
        )
    steps_with_slopes(rounds)


if __name__ == "__main__":
    main()
