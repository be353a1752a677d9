"""ARSM, ARM and the trees of DisARM."""

import pytest
import torch
from helpers import RandomTable, generator, logits_of

import carms


def test_arsm_of_two_categories_is_arm():
    logits, f = logits_of(50, 3, 2), RandomTable(3, 2)
    estimator = carms.make("arsm", samples=1)
    draw = estimator.sample(logits, generator(2))
    value = estimator.surrogate(draw, f(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    u, one = draw.memory.w[0, ..., 1], logits.detach().softmax(-1)[..., 1]
    forth, back = (u < one).long(), (1 - u < one).long()
    difference = f.of_indices(forth) - f.of_indices(back)
    expected = difference.unsqueeze(-1) * (0.5 - u)
    torch.testing.assert_close(gradient[..., 1], expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient[..., 0], -expected, rtol=1e-9, atol=1e-12)


def test_arsm_evaluates_every_point_once():
    logits = logits_of(1, 2, 6)
    estimator = carms.make("arsm", samples=3)
    for seed in range(20):
        points = estimator.sample(logits, generator(seed)).indices[:, 0]
        assert len(points.unique(dim=0)) == len(points) <= 3 * 16


def test_arsm_adds_up_to_zero_beside_impossible_categories():
    logits = torch.tensor([[0, 1, -torch.inf, -0.5], [0.3, -torch.inf, -torch.inf, 1]]).double()
    exact = logits.clone().requires_grad_()
    f = RandomTable(2, 4)
    carms.expectation(f, exact, "exact").backward()
    many = logits.expand(100_000, 2, 4).clone().requires_grad_()
    carms.expectation(f, many, "arsm", 1, generator=generator()).sum().backward()
    assert many.grad.sum(-1).abs().max() < 1e-12
    error, spread = many.grad.mean(0) - exact.grad, many.grad.std(0) / len(many) ** 0.5
    assert (error.abs() <= 4 * spread).all()


@pytest.mark.parametrize("tree", ["balanced", "stick-breaking"])
def test_disarm_tree_of_two_categories_is_disarm(tree):
    logits, f = logits_of(50, 3, 2), RandomTable(3, 2)
    estimator = carms.make("disarm-tree", samples=2, tree=tree)
    draw = estimator.sample(logits, generator(2))
    (gradient,) = torch.autograd.grad(estimator.surrogate(draw, f(draw.z)).sum(), logits)
    (z, other), p = draw.z, logits.detach().softmax(-1)
    values = f(draw.z)
    difference = (values[0] - values[1])[:, None, None]
    expected = 0.5 * difference * (z - other) * p.amax(-1, keepdim=True)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def tree_nodes(categories, tree):
    """Inner nodes as (left leaves, right leaves)."""
    nodes, todo = [], [range(categories)]
    while todo:
        leaves = todo.pop()
        if len(leaves) > 1:
            middle = (len(leaves) + 1) // 2 if tree == "balanced" else 1
            nodes.append((leaves[:middle], leaves[middle:]))
            todo += nodes[-1]
    return nodes


@pytest.mark.parametrize("tree", ["balanced", "stick-breaking"])
@pytest.mark.parametrize("categories", [3, 5, 8])
def test_disarm_tree_is_disarm_where_the_walkers_part_and_reinforce_below(tree, categories):
    logits, f = logits_of(1, categories), RandomTable(1, categories)
    estimator = carms.make("disarm-tree", samples=2, tree=tree)
    for seed in range(50):
        draw = estimator.sample(logits, generator(seed))
        value = estimator.surrogate(draw, f(draw.z))
        (gradient,) = torch.autograd.grad(value, logits)
        first, second = draw.indices[:, 0].tolist()
        half = 0.5 * (f.values[first] - f.values[second])
        total = torch.zeros(())
        for left, right in tree_nodes(categories, tree):
            node = logits[0, right].logsumexp(0) - logits[0, left].logsumexp(0)
            visits = [z in (*left, *right) for z in (first, second)]
            right_turn = [float(z in right) for z in (first, second)]
            if all(visits):
                weight = (right_turn[0] - right_turn[1]) * node.abs().sigmoid()
            elif any(visits):
                sign = 1 if visits[0] else -1
                weight = sign * (right_turn[visits.index(True)] - node.sigmoid())
            else:
                continue
            total = total + half * weight.detach() * node
        expected = torch.autograd.grad(total, logits)[0] if first != second else 0 * gradient
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_a_variable_that_is_all_but_certain_keeps_its_sum():
    """Its largest probability is 1 in single precision, and the others are not 0."""
    logits = torch.tensor([[20.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).expand(1000, 2, 3).clone()
    logits.requires_grad_()
    value = carms.expectation(
        lambda z: 1e6 * (z * torch.arange(3.0)).sum((-2, -1)).square(), logits, "arsm", samples=4
    )
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.abs().max() > 1e5
    assert gradient.sum(-1).abs().max() < 10
