"""Documented use of the library, as a type checker sees it."""

from typing import assert_type

import torch
from torch import Tensor
from torch.distributions import Bernoulli

import carms
from carms.estimators import Name

# An editor offers the names, and a checker knows them; any other string is allowed where it is
# used, since estimators can be registered.
KNOWN: Name = "carms-t"
UNKNOWN: Name = "carms-x"  # type: ignore[assignment]


def f(z: Tensor) -> Tensor:
    return z[..., 0].sum(-1)


def by_name(logits: Tensor, name: str = "loorf") -> None:
    for value in (
        carms.expectation(f, logits),
        carms.expectation(f, logits, KNOWN, samples=4),
        carms.expectation(f, logits, name, generator=torch.Generator().manual_seed(0)),
        carms.expectation(lambda z: z.sum(-1), Bernoulli(logits=logits[..., 0]), "disarm"),
        carms.expectation(lambda one, two: f(one) + f(two), (logits, logits)),
        carms.expectation(lambda indices: indices.sum(-1).float(), logits, one_hot=False),
    ):
        assert_type(value, Tensor)


def orderings() -> None:
    copula = carms.copulas.Dirichlet(4)
    carms.couplings.InverseCDF(copula, "one")
    carms.couplings.InverseCDF(copula, 4)
    carms.couplings.InverseCDF(copula, "two")  # type: ignore[arg-type]


def learning(logits: Tensor) -> None:
    estimator = assert_type(carms.make("rodeo", samples=4), carms.Estimator)
    optimiser = torch.optim.Adam(estimator.parameters(), lr=0.01)
    carms.expectation(f, logits, estimator).sum().backward()
    optimiser.step()
    estimator.load_state_dict(estimator.eval().state_dict())
    assert_type(estimator.unbiased and estimator.black_box, bool)


def two_steps(logits: Tensor) -> None:
    estimator = carms.make("carms-s", samples=4)
    draw = estimator.sample(logits)
    assert_type(draw.indices, Tensor)
    assert_type(estimator.surrogate(draw, f(draw.z)), Tensor)


def table(logits: Tensor) -> None:
    compared = carms.compare(f, logits, ["loorf", carms.make("carms-i")], replicates=2)
    assert_type(compared, carms.Comparison)


def layers(logits: Tensor) -> None:
    paths = carms.Paths(samples=4, estimator="loorf")
    first = paths.sample(logits)
    assert_type(paths.expectation(f(paths.sample(first))), Tensor)
