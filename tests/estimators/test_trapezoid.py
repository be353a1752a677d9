"""Trapezoid slopes, and neighbours with one variable changed."""

import torch
from carms_t_cases import REPLICATES, quadratic, scaled, true_gradient
from helpers import Moments, configurations, dirichlet_probs, generator, logits_of

import carms
from carms.estimators.carms_t import CarmsT
from carms.estimators.families.trapezoid import change_one, trapezoid


def test_the_trapezoid_is_exact_on_quadratics_and_only_there():
    probs = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.05)
    for f, exact in ((quadratic, True), (lambda z: quadratic(z).sin(), False)):
        points = configurations(2, 3).requires_grad_()
        (slopes,) = torch.autograd.grad(f(points).sum(), points)
        chances = (probs * points.detach()).sum(-1).prod(-1)
        parts = [
            chance * trapezoid(probs, z[None], h[None])
            for chance, z, h in zip(chances, points.detach(), slopes, strict=True)
        ]
        expected = true_gradient(f, probs)[1]
        assert torch.allclose(sum(parts), expected, rtol=1e-12) == exact


def test_neighbours_find_nothing_to_mend_in_a_quadratic():
    logits = logits_of(50, 2, 3)
    estimator = scaled(1.0, 1.0, samples=6)
    draw = estimator.sample(logits, generator(1))
    value = estimator.surrogate(draw, quadratic(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    base = draw.z[: estimator.base].detach().requires_grad_()
    (slopes,) = torch.autograd.grad(quadratic(base).sum(), base)
    by_slopes = trapezoid(logits.detach().softmax(-1), base.detach(), slopes)
    torch.testing.assert_close(gradient, by_slopes)


def test_neighbours_change_one_variable_and_keep_the_distribution():
    probs = dirichlet_probs(0.5, 2, 3, seed=3, floor=0.02)
    logits = probs.log().expand(REPLICATES, 2, 3)
    draw = CarmsT(samples=4, neighbours=2).sample(logits, generator(0))
    base, changed = draw.indices.split(2)
    assert ((base != changed).sum(-1) == 1).all()
    weights = draw.memory.weights.double()
    torch.testing.assert_close(weights.sum(0), torch.ones(REPLICATES, dtype=torch.float64))
    # Each neighbour with its acceptance, and its base sample with the rest, is a sample of p.
    accepted = weights[2:] * 2 * 2**10
    frequency = Moments()
    points = torch.stack([3 * one[..., 0] + one[..., 1] for one in (base[0], changed[0])])
    hits = torch.nn.functional.one_hot(points, 9).double()
    frequency.add((1 - accepted[0, :, None]) * hits[0] + accepted[0, :, None] * hits[1])
    expected = (probs[0].unsqueeze(-1) * probs[1]).flatten()
    assert frequency.agrees_with(expected)
    assert accepted.min() > 0
    assert accepted.max() <= 1
    plain = Moments()
    plain.add(hits[1])
    assert not plain.agrees_with(expected)


def test_few_neighbours_of_a_certain_variable():
    # Chosen in proportion to the probability to change: the certain one never.
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]).expand(1000, 2, 3)
    z = torch.tensor([0, 2]).expand(3, 1000, 2)
    changed, reach, _ = change_one(probs, z, generator(0))
    assert (changed[..., 0] == 1).all()
    assert (changed[..., 1] == 2).all()
    torch.testing.assert_close(reach, torch.full_like(reach, 0.5))


def test_what_cannot_happen_is_not_asked_for():
    logits = torch.tensor([[0.0, -torch.inf, 1.0], [-torch.inf, 2.0, -torch.inf]])
    logits = logits.expand(200, 2, 3).clone().requires_grad_()

    def f(z):
        assert (z[..., 0, 1] == 0).all()
        assert (z[..., 1, 1] == 1).all()
        return (z[..., 0, 2] - 0.3) ** 3

    value = carms.expectation(f, logits, "carms-t", samples=5)
    value.sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[:, 1].abs().max() < 1e-6
    assert (logits.grad[:, 0, 1] == 0).all()
    assert logits.grad[:, 0].abs().max() > 0


def test_nothing_changes_where_all_is_certain():
    logits = torch.tensor([[0.0, -torch.inf], [200.0, 0.0]]).expand(5, 2, 2).clone()
    logits.requires_grad_()
    carms.expectation(lambda z: z[..., 0].sum(-1) ** 2, logits, "carms-t").sum().backward()
    assert (logits.grad == 0).all()
