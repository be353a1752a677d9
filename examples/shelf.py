"""Every estimator on two problems: ``carms.compare`` over the whole shelf.

The paper's toy problem, ``f(z) = sum_d sum_c d c z_dc`` with three variables of three categories,
and a network of two layers. Four samples each; learned estimators after 300 steps of training.
"""

import argparse

import torch
from torch import Tensor

import carms


def toy(z: Tensor) -> Tensor:
    """The objective of the paper: linear."""
    number = torch.arange(1, 4, dtype=z.dtype)
    return torch.einsum("...dc,d,c->...", z, number, number)


def two_layers(z: Tensor) -> Tensor:
    """A random network of one hidden layer: anything but linear."""
    source = torch.Generator().manual_seed(0)
    inner = 2 * torch.randn(9, 16, generator=source, dtype=z.dtype)
    outer = torch.randn(16, generator=source, dtype=z.dtype)
    return 3 + (z.flatten(-2) @ inner).tanh() @ outer


def main() -> None:
    """Print a table for each problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=1000)
    replicates = parser.parse_args().replicates
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logits = torch.randn(3, 3, dtype=torch.float64)
    made = {name: carms.make(name, samples=4) for name in carms.available()}
    names = [name for name, each in made.items() if each.samples and not each.binary_only]
    for title, f in (("The toy problem", toy), ("A two-layer network", two_layers)):
        print(title)
        print(carms.compare(f, logits, names, samples=4, replicates=replicates), end="\n\n")


if __name__ == "__main__":
    main()
