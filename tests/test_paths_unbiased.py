"""Paths through several layers against enumeration."""

import itertools

import pytest
import torch
from helpers import Moments, dirichlet_probs, generator

import carms

REPLICATES, CHUNK = 200_000, 20_000
# Two variables of three categories, then one of two, then one of four.
SHAPES = [(2, 3), (1, 2), (1, 4)]


def one_hot(indices, categories):
    return torch.nn.functional.one_hot(torch.tensor(indices), categories).double()


class Chain:
    """Three layers, each with logits made of all layers before it.

    Its parameters have a leading dimension of replicates, so that each has its own gradient.
    """

    def __init__(self, concentration=1.0):
        probs = dirichlet_probs(concentration, *SHAPES[0], seed=7, floor=0.01)
        noise = generator(3)

        def normal(*shape):
            return torch.randn(shape, generator=noise, dtype=torch.float64)

        # A constant row stands for the bias.
        scale = 1 / concentration**0.5
        self.parameters = {
            "first": probs.log(),
            "second": scale * normal(2 * 3 + 1, 1 * 2),
            "third": scale * normal(2 * 3 + 2 + 1, 1 * 4),
            "last": normal(2 * 3 + 2 + 4),
        }
        self.table = normal(3, 3, 2, 4)

    def logits(self, weight, *layers):
        """``[..., D C]`` of the next layer from samples ``[..., D, C]`` of those before.

        Bounded: a rarer category would not be seen often enough.
        """
        flat = [z.flatten(-2) for z in layers]
        inputs = torch.cat([*flat, torch.ones_like(flat[0][..., :1])], -1)
        return 2 * (inputs.unsqueeze(-2) @ weight).squeeze(-2).tanh()

    def f(self, last, *layers):
        """A table without structure, times a linear function with its own weights."""
        flat = torch.cat([z.flatten(-2) for z in layers], -1)
        indices = torch.cat([z.argmax(-1) for z in layers], -1)
        return self.table[indices.unbind(-1)] * (1 + (flat * last).sum(-1))

    def sampled(self, parameters, paths):
        z1 = paths.sample(parameters["first"])
        z2 = paths.sample(self.logits(parameters["second"], z1).unflatten(-1, SHAPES[1]))
        z3 = paths.sample(self.logits(parameters["third"], z1, z2).unflatten(-1, SHAPES[2]))
        return paths.expectation(self.f(parameters["last"], z1, z2, z3))

    def enumerated(self, parameters):
        total = 0.0
        for a, b, c, d in itertools.product(range(3), range(3), range(2), range(4)):
            z1, z2, z3 = one_hot([a, b], 3), one_hot([c], 2), one_hot([d], 4)
            second = self.logits(parameters["second"], z1).unflatten(-1, SHAPES[1])
            third = self.logits(parameters["third"], z1, z2).unflatten(-1, SHAPES[2])
            layers = [(parameters["first"], z1), (second, z2), (third, z3)]
            log_p = sum((logits.log_softmax(-1) * z).sum() for logits, z in layers)
            total = total + log_p.exp() * self.f(parameters["last"], z1, z2, z3)
        return total


def leaves(parameters, *batch):
    return {
        key: value.expand(*batch, *value.shape).clone().requires_grad_()
        for key, value in parameters.items()
    }


def assert_unbiased(parameters, sampled, enumerated):
    """Value and gradients of all parameters, replicates being a batch dimension."""
    alone = leaves(parameters)
    truth = enumerated(alone)
    gradients = torch.autograd.grad(truth, list(alone.values()))
    value, found = Moments(), {key: Moments() for key in parameters}
    for _ in range(REPLICATES // CHUNK):
        many = leaves(parameters, CHUNK)
        values = sampled(many)
        value.add(values.detach())
        for key, rows in zip(many, torch.autograd.grad(values.sum(), many.values()), strict=True):
            found[key].add(rows)
    assert value.agrees_with(truth.detach())
    for (key, moments), gradient in zip(found.items(), gradients, strict=True):
        assert moments.agrees_with(gradient), f"{key}: largest |z| is {moments.z(gradient).max()}"


@pytest.mark.parametrize(
    ("estimator", "samples", "concentration"),
    [
        ("carms-s", 4, 1.0),
        ("carms-s", 2, 1.0),
        # Low entropy.
        ("carms-s", 4, 0.1),
        ("loorf", 4, 1.0),
        ("carms-i", 4, 1.0),
    ],
)
def test_three_dependent_layers_are_unbiased(estimator, samples, concentration):
    chain, source = Chain(concentration), generator(5)
    assert_unbiased(
        chain.parameters,
        lambda many: chain.sampled(many, carms.Paths(samples, estimator, source)),
        chain.enumerated,
    )


@pytest.mark.parametrize("estimator", ["carms-s", "carms-i", "loorf"])
def test_layers_side_by_side_are_unbiased(estimator):
    """Two coupled layers of different C, and one between them that depends on the first."""
    table = torch.randn(3, 2, 4, generator=generator(2), dtype=torch.float64)
    parameters = {
        "left": dirichlet_probs(1.0, 1, 3, seed=1, floor=0.01).log(),
        "below": torch.randn(3, 2, generator=generator(3), dtype=torch.float64),
        "right": dirichlet_probs(1.0, 1, 4, seed=2, floor=0.01).log(),
    }
    source = generator(6)

    def sampled(many):
        paths = carms.Paths(3, estimator, source)
        left = paths.sample(many["left"], one_hot=False)
        rows = many["below"].expand(3, *many["below"].shape)
        logits = rows.gather(-2, left.unsqueeze(-1).expand(*left.shape, 2))
        below = paths.sample(logits, one_hot=False)
        right = paths.sample(many["right"], one_hot=False)
        return paths.expectation(table[left, below, right].squeeze(-1))

    def enumerated(alone):
        left, right = alone["left"].softmax(-1)[0], alone["right"].softmax(-1)[0]
        return torch.einsum("i,ij,k,ijk", left, alone["below"].softmax(-1), right, table)

    assert_unbiased(parameters, sampled, enumerated)
