"""Independent variables: coupled one by one, or as a sequence by a single number."""

import argparse
import statistics
from collections.abc import Callable

import torch
from timing import print_table
from torch import Tensor
from variance import random_logits, random_objective, variance

import carms
from carms.sequences import advantages, rollouts

# Categories, samples, variables.
PRODUCTS = [(4, 4, 2), (4, 16, 2), (4, 16, 4), (4, 64, 4), (10, 10, 2), (10, 10, 10), (2, 16, 20)]


def product_variance(
    f: Callable[[Tensor], Tensor], logits: Tensor, samples: int, groups: int, **options: object
) -> float:
    """Total variance over the logits ``[D, C]`` if one number couples all variables."""

    def step(tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return logits[tokens.shape[1]].expand(len(tokens), -1), cache

    nothing = torch.zeros(groups, 0, dtype=torch.long)
    drawn = rollouts(step, nothing, samples, len(logits), **options)
    weights = advantages(f(drawn.tokens), drawn).double() / samples
    one_hot = torch.nn.functional.one_hot(drawn.tokens, logits.shape[-1]).double()
    return float(torch.einsum("pn,pndc->pdc", weights, one_hot).var(0).sum())


def product_table(arguments: argparse.Namespace) -> None:
    rows = []
    for categories, samples, variables in PRODUCTS:
        for concentration in (1.0, 0.1):
            found: dict[str, list[float]] = {"carms-s": [], "one number": []}
            groups = min(4000, arguments.rows // samples)
            for _ in range(arguments.problems):
                f = random_objective(categories, variables)
                logits = random_logits(variables, categories, concentration)
                each = {
                    name: variance(carms.make(name, samples=samples), f, logits, groups)
                    for name in ("loorf", "carms-s")
                }
                found["carms-s"].append(each["carms-s"] / each["loorf"])
                one = product_variance(f, logits, samples, groups)
                found["one number"].append(one / each["loorf"])
            cells = [f"{statistics.mean(values):.2f}" for values in found.values()]
            size = [f"{number:g}" for number in (categories, variables, samples, concentration)]
            rows.append([*size, *cells])
    print_table(
        f"D independent variables: variance / loorf's, mean over {arguments.problems} problems; "
        "p ~ Dir(alpha)",
        ["C", "D", "N", "alpha", "carms-s, per variable", "sequences, one number"],
        rows,
    )
