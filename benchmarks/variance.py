"""Gradient variance relative to LOORF at equal evaluations, over random problems."""

import argparse
import statistics
from collections.abc import Callable

import torch
from timing import print_table
from torch import Tensor

import carms
from carms.estimators import Estimator

ESTIMATORS: dict[str, tuple[str, dict[str, object]]] = {
    "carms-i": ("carms-i", {}),
    "carms-i, one ordering": ("carms-i", {"orderings": "largest-first"}),
    "carms-i, stratified": ("carms-i", {"copula": "stratified"}),
    "carms-g": ("carms-g", {}),
    "carms-s": ("carms-s", {}),
    "carms-s, 4 orderings": ("carms-s", {"orderings": 4}),
    "carms-s, epsilon 0.1": ("carms-s", {"epsilon": 0.1}),
}
# (C, N, D, concentration of p)
SETTINGS = [
    (10, 10, 1, 1.0),
    (10, 10, 1, 1000.0),
    (10, 10, 10, 1.0),
    (5, 5, 10, 1.0),
    (3, 3, 3, 1.0),
    (10, 4, 10, 1.0),
    (100, 4, 10, 1.0),
    (1000, 8, 10, 1.0),
]
# What the means should reach.
LIMITS = {
    (10, 10, 1, 1.0): {"carms-i": 0.95, "carms-s": 0.45},
    (10, 10, 10, 1.0): {"carms-s": 0.955},
}
# Limit for carms-s with terms, D = 20, C = N = 8, separable f.
TERMS_LIMIT = 0.035
# Problems for `ridge`, (kind of f, D, C, N), and what its mean should reach.
REGRESSION = {
    ("tanh network", 10, 2, 16): 0.45,
    ("tanh network", 50, 2, 32): 0.55,
    ("tanh network", 10, 10, 32): None,
    ("sine network", 10, 2, 16): 0.45,
    ("sine network", 50, 2, 32): None,
    ("quadratic form", 10, 2, 16): None,
    ("table", 3, 2, 4): 1.02,
    ("table", 3, 3, 4): 1.02,
}
# Examples in a call: the scale of one is fitted on the others.
BATCH = 50

Objective = Callable[[Tensor], Tensor]


def random_logits(variables: int, categories: int, concentration: float = 1.0) -> Tensor:
    """Logits ``[variables, categories]`` of ``p ~ Dir(concentration)``."""
    prior = torch.distributions.Dirichlet(torch.full((categories,), concentration))
    return prior.sample((variables,)).clamp_min(1e-30).log()


def random_objective(categories: int, variables: int) -> Objective:
    """A table of normals for one variable; for more, a two-layer network with random weights."""
    if variables == 1:
        table = torch.randn(categories)
        return lambda indices: table[indices[..., 0]]
    first = torch.randn(variables, categories, 64) / variables**0.5
    last = torch.randn(64)
    each = torch.arange(variables)
    return lambda indices: 3 * first[each, indices].sum(-2).sin() @ last


def variance(
    estimator: Estimator,
    f: Objective,
    logits: Tensor,
    replicates: int,
    terms: Tensor | None = None,
) -> float:
    """Total variance over the logits, replicates being a batch dimension."""
    many = logits.expand(replicates, *logits.shape).clone().requires_grad_()
    estimator.expectation(f, many, one_hot=False, terms=terms).sum().backward()
    assert many.grad is not None
    return float(many.grad.double().var(0).sum())


def objective_of_kind(kind: str, categories: int, variables: int) -> Objective:
    """Random functions that are more or less a sum over the variables."""
    each = torch.arange(variables)
    if kind == "sine network":
        return random_objective(categories, variables)
    if kind == "tanh network":
        first = torch.randn(variables, categories, 32) / variables**0.5
        last = torch.randn(32)
        return lambda indices: first[each, indices].sum(-2).tanh() @ last
    if kind == "quadratic form":
        form = torch.randn(variables, categories, variables, categories)
        return lambda indices: form[
            each.unsqueeze(-1), indices.unsqueeze(-1), each, indices.unsqueeze(-2)
        ].sum((-2, -1))
    table = torch.randn([categories] * variables)
    return lambda indices: table[indices.unbind(-1)]


def batched_variance(
    estimator: Estimator, f: Objective, logits: Tensor, batches: int, one_hot: bool = False
) -> float:
    """Total variance over the logits in calls of ``BATCH`` examples."""
    rows = []
    for _ in range(batches):
        many = logits.expand(BATCH, *logits.shape).clone().requires_grad_()
        value = estimator.expectation(f, many, one_hot=one_hot)
        rows.append(torch.autograd.grad(value.sum(), many)[0])
    return float(torch.cat(rows).double().var(0).sum())


def print_regression(problems: int, replicates: int) -> None:
    """Print the table of ``ridge``."""
    torch.manual_seed(0)
    rows, batches = [], replicates // BATCH
    for (kind, variables, categories, samples), limit in REGRESSION.items():
        found: dict[str, list[float]] = {"ridge": [], "carms-s": []}
        for _ in range(problems):
            f = objective_of_kind(kind, categories, variables)
            logits = random_logits(variables, categories)
            loorf = batched_variance(carms.make("loorf", samples=samples), f, logits, batches)
            for name, ratios in found.items():
                made = carms.make(name, samples=samples)
                ratios.append(batched_variance(made, f, logits, batches) / loorf)
        cells = [f"{statistics.mean(ratios):.3f}" for ratios in found.values()]
        cells[0] += f" (<= {limit})" if limit else ""
        rows.append([f"{kind}, D={variables} C={categories} N={samples}", *cells])
    print_table(
        f"Total gradient variance / loorf's in batches of {BATCH}, mean over {problems} random "
        f"problems, {replicates} replicates; p ~ Dir(1)",
        ["f", *found],
        rows,
    )


def worth_running(name: str, options: dict[str, object], categories: int, samples: int) -> bool:
    """Whether the estimator is made for such a problem."""
    if options.get("orderings") == "largest-first" and categories > 2 ** (samples - 1):
        return False
    return categories <= 10 or name == "carms-s"


def relative_variances(
    setting: tuple[int, int, int, float], problems: int, replicates: int
) -> dict[str, list[float]]:
    """Variances of ``ESTIMATORS`` relative to that of LOORF, one for each random problem."""
    categories, samples, variables, concentration = setting
    found: dict[str, list[float]] = {label: [] for label in ESTIMATORS}
    for _ in range(problems):
        f = random_objective(categories, variables)
        logits = random_logits(variables, categories, concentration)
        reference = variance(carms.make("loorf", samples=samples), f, logits, replicates)
        for label, (name, options) in ESTIMATORS.items():
            if worth_running(name, options, categories, samples):
                made = carms.make(name, samples=samples, **options)
                found[label].append(variance(made, f, logits, replicates) / reference)
    return found


def print_estimators(problems: int, replicates: int) -> None:
    """Print the table of all estimators and settings."""
    torch.manual_seed(0)
    ratios: dict[str, list[str]] = {label: [] for label in ESTIMATORS}
    for setting in SETTINGS:
        for label, values in relative_variances(setting, problems, replicates).items():
            limit = LIMITS.get(setting, {}).get(label)
            text = f"{statistics.mean(values):.3f}" if values else "-"
            ratios[label].append(text + (f" (<= {limit})" if limit else ""))
    print_table(
        f"Total gradient variance / loorf's, mean over {problems} random problems, "
        f"{replicates} replicates; p ~ Dir(alpha)",
        ["estimator", *[f"C={c} N={n} D={d} alpha={a:g}" for c, n, d, a in SETTINGS]],
        [[label, *cells] for label, cells in ratios.items()],
    )


def print_terms(problems: int, replicates: int) -> None:
    """Print the variances for a sum of one table per variable, with ``terms`` and without."""
    torch.manual_seed(0)
    variables, categories, samples = 20, 8, 8
    each = torch.arange(variables)
    names = ("loorf", "carms-i", "carms-s")
    found: dict[str, list[float]] = {
        f"{name}{how}": [] for name in names for how in ("", ", terms")
    }
    for _ in range(problems):
        table = torch.randn(variables, categories)
        logits = random_logits(variables, categories)

        def f(indices: Tensor, table: Tensor = table) -> Tensor:
            return table[each, indices]

        measured = {}
        for name in names:
            made = carms.make(name, samples=samples)
            measured[name] = variance(made, lambda z: f(z).sum(-1), logits, replicates)
            measured[f"{name}, terms"] = variance(
                made, f, logits, replicates, terms=torch.eye(variables)
            )
        for label, value in measured.items():
            found[label].append(value / measured["loorf"])
    rows = []
    for label, values in found.items():
        limit = f" (<= {TERMS_LIMIT})" if label == "carms-s, terms" else ""
        rows.append([label, f"{statistics.mean(values):.3f}{limit}"])
    print_table(
        f"Separable f, D = {variables}, C = N = {categories}: total gradient variance / loorf's "
        f"without terms, mean over {problems} random problems",
        ["estimator", "variance"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=24, help="number of random problems")
    parser.add_argument("--replicates", type=int, default=4000, help="number of gradients of each")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print_estimators(arguments.problems, arguments.replicates)
    print_terms(arguments.problems, arguments.replicates)
    print_regression(arguments.problems // 2, arguments.replicates // 2)


if __name__ == "__main__":
    main()
