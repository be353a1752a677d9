"""Estimators that visit all neighbours of a sample."""

import itertools

import pytest
import torch
from helpers import Moments, RandomTable, dirichlet_probs, generator, logits_of

import carms
from carms.estimators.families.neighbours import neighbour_table, neighbours


def test_neighbours_and_their_table():
    probs = dirichlet_probs(1.0, 4, 2, 3, seed=1)
    z = torch.randint(0, 3, (2, 4, 2))
    f = RandomTable(2, 3)
    points = neighbours(z, probs)
    assert torch.equal(points[:2], z)
    table = neighbour_table(f.of_indices(points).unsqueeze(-1), z, 3)
    for n, b, d, c in itertools.product(range(2), range(4), range(2), range(3)):
        changed = z[n, b].clone()
        changed[d] = c
        assert table[n, b, d, c] == f.of_indices(changed)


def test_table_of_each_variables_own_values():
    probs = dirichlet_probs(1.0, 4, 2, 3, seed=1)
    z = torch.randint(0, 3, (2, 4, 2))
    points = neighbours(z, probs)
    own = RandomTable(2, 3, seed=0), RandomTable(2, 3, seed=1)
    values = torch.stack([f.of_indices(points) for f in own], -1)
    table = neighbour_table(values, z, 3)
    for d, f in enumerate(own):
        alone = neighbour_table(f.of_indices(points).unsqueeze(-1), z, 3)
        assert torch.equal(table[..., d, :], alone[..., d, :])


def test_impossible_neighbours_are_not_visited():
    probs = torch.tensor([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])
    points = neighbours(torch.tensor([[1, 0], [2, 0]]), probs)
    assert (points[:, 0] != 0).all()
    assert (points[:, 1] == 0).all()


@pytest.mark.parametrize("name", ["local-expectation", "indecater"])
def test_one_variable_is_exact(name):
    logits, f = logits_of(6, 1, 5), RandomTable(1, 5)
    value = carms.expectation(f, logits, name, samples=1)
    expected = carms.expectation(f, logits, "exact")
    torch.testing.assert_close(value, expected)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0])


def test_local_expectation_averages_the_measure_valued_gradient():
    # Given the samples, over what the negative part draws.
    logits, f = logits_of(2, 3), RandomTable(2, 3)
    local = carms.make("local-expectation", samples=1)
    fixed = local.sample(logits, generator(3))
    z, probs = fixed.memory
    estimator = carms.make("measure-valued", samples=1)
    source, moments = generator(1), Moments()
    for _ in range(3000):
        drawn = estimator.sample(logits, source)
        other = drawn.memory.other
        table = neighbour_table(f(fixed.z.detach()).unsqueeze(-1), z, 3)
        moments.add(probs * (1 - probs) * (table - table.gather(-1, other)))
    (expected,) = torch.autograd.grad(local.surrogate(fixed, f(fixed.z)), logits)
    assert moments.agrees_with(expected)
