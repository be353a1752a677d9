"""The bias of the biased is what theory says."""

import itertools

import pytest
import torch
from helpers import (
    RandomTable,
    configurations,
    dirichlet_probs,
    expected_gradient,
    gradient_of,
    logits_of,
    network,
    polynomial,
    replicate,
)

import carms


def true_gradient(f, probs):
    logits = probs.log().requires_grad_()
    points = configurations(*probs.shape)
    weights = (logits.softmax(-1) * points).sum(-1).prod(-1)
    return torch.autograd.grad((weights * f(points)).sum(), logits)[0]


@pytest.mark.parametrize(
    ("name", "options", "exact_up_to"),
    [
        ("straight-through", {}, 1),
        ("reinmax", {}, 2),
        ("reinmax", {"temperature": 1.3}, 0),
        ("gapped-st", {}, 0),
    ],
)
def test_up_to_which_degree_of_f_an_estimator_is_exact(name, options, exact_up_to):
    probs = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1)
    for degree in (1, 2, 3):
        f = polynomial(degree)
        found = expected_gradient(carms.make(name, samples=1, **options), f, probs)
        error = (found - true_gradient(f, probs)).abs().max().item()
        assert (error < 1e-10) == (degree <= exact_up_to), (degree, error)


def slope_at(point, f):
    point = point.clone().requires_grad_()
    return torch.autograd.grad(f(point), point)[0]


def jacobian(p):
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def test_bias_of_straight_through_is_what_theory_says():
    probs, f = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1), polynomial(3)
    expected = torch.zeros_like(probs)
    for point in configurations(2, 3):
        chance = (probs * point).sum(-1).prod()
        expected += chance * (jacobian(probs) @ slope_at(point, f).unsqueeze(-1)).squeeze(-1)
    found = expected_gradient(carms.make("straight-through", samples=1), f, probs)
    torch.testing.assert_close(found, expected)


def test_bias_of_gapped_straight_through_is_what_theory_says():
    probs, f, temperature, gap = (
        dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1),
        polynomial(2),
        0.7,
        0.9,
    )
    expected = torch.zeros_like(probs)
    for point in configurations(2, 3):
        moved = probs.log()
        top = moved.max(-1).values
        for d, c in itertools.product(range(2), range(3)):
            if point[d, c] == 1:
                moved[d, c] = top[d]
            else:
                moved[d, c] -= max(0, moved[d, c] - (top[d] - gap))
        soft = (moved / temperature).softmax(-1)
        slope = slope_at(point, f).unsqueeze(-1)
        chance = (probs * point).sum(-1).prod()
        expected += chance * (jacobian(soft) @ slope).squeeze(-1) / temperature
    estimator = carms.make("gapped-st", samples=1, temperature=temperature, gap=gap)
    torch.testing.assert_close(expected_gradient(estimator, f, probs), expected)


@pytest.mark.parametrize("name", ["gumbel-softmax", "st-gumbel-softmax", "gr-mc"])
def test_gumbel_softmax_of_two_categories_is_an_integral(name):
    # The difference of two Gumbels is logistic; on a linear f all three have the same mean.
    logit, temperature = torch.tensor(0.8, dtype=torch.float64), 0.6
    noise = torch.linspace(-40, 40, 200_001, dtype=torch.float64)
    density = noise.sigmoid() * (-noise).sigmoid()
    soft = ((logit + noise) / temperature).sigmoid()
    expected = torch.trapezoid(density * soft * (1 - soft) / temperature, noise)
    estimator = carms.make(name, samples=2, temperature=temperature)
    _, gradients = replicate(
        estimator,
        lambda z, _: z[..., 0, 1],
        torch.stack((torch.zeros(()), logit)).double().unsqueeze(0),
        200_000,
    )
    assert gradients.agrees_with(torch.stack((-expected, expected)).unsqueeze(0))


def test_many_draws_of_the_noise_are_its_average():
    probs, f = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.1), polynomial(3)
    _, hard = replicate(
        carms.make("st-gumbel-softmax", samples=1), lambda z, _: f(z), probs.log(), 200_000
    )
    _, averaged = replicate(
        carms.make("gr-mc", samples=1, draws=50), lambda z, _: f(z), probs.log(), 20_000
    )
    error = (hard.variance / hard.count + averaged.variance / averaged.count).sqrt()
    assert ((hard.mean - averaged.mean).abs() / error).max() < 5
    assert averaged.variance.sum() < 0.95 * hard.variance.sum()


@pytest.mark.parametrize("epsilon", [1.0, -0.5, 3.0])
def test_bias_of_direct_argmax_is_what_theory_says(epsilon):
    probs, f = dirichlet_probs(1.0, 1, 4, seed=4, floor=0.05), RandomTable(1, 4)
    expected = ((probs.log() + epsilon * f.values).softmax(-1) - probs) / epsilon
    estimator = carms.make("direct-argmax", samples=2, epsilon=epsilon)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 200_000)
    assert gradients.agrees_with(expected)
    assert not gradients.agrees_with(f.expectation(probs)[1])


@pytest.mark.parametrize("step", [0.3, 1.0])
def test_bias_of_finite_differences_is_what_theory_says(step):
    probs, f = dirichlet_probs(1.0, 2, 3, seed=4, floor=0.05), RandomTable(2, 3)
    expected = torch.zeros_like(probs)
    for signs in itertools.product((-1.0, 1.0), repeat=6):
        sign = torch.tensor(signs, dtype=torch.float64).view(2, 3)
        forth, back = (
            f.expectation((probs.log() + way * step * sign).softmax(-1))[0] for way in (1, -1)
        )
        expected += (forth - back) / (2 * step) * sign / 64
    estimator = carms.make("finite-difference", samples=2, step=step)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 400_000)
    assert gradients.agrees_with(expected)
    if step == 1:
        assert not gradients.agrees_with(f.expectation(probs)[1])


def gumbel_rao_slope(logit, temperature, won):
    """``E[s (1 - s) / temperature]`` with ``s = sigmoid((logit + noise) / temperature)``, given
    that the second of two categories won, or the first.
    """
    # Where the second category wins, the noise is above -logit, and there the rule has its end.
    reach = torch.linspace(0, 60, 200_001, dtype=torch.float64)
    noise = -logit + (reach if won else -reach)
    density = noise.sigmoid() * (-noise).sigmoid()
    soft = ((logit + noise) / temperature).sigmoid()
    integrand = density * soft * (1 - soft) / temperature
    return torch.trapezoid(integrand, reach) / torch.trapezoid(density, reach)


@pytest.mark.parametrize("coupling", ["independent", "circular"])
@pytest.mark.parametrize(
    ("name", "scale"), [("reinmax-rao", None), ("reinmax-cv", 0.4), ("reinmax-cv", 1.5)]
)
def test_reinmax_rao_and_cv_of_two_categories_are_integrals(name, scale, coupling):
    logit, temperature = torch.tensor(0.8, dtype=torch.float64), 0.6
    p = logit.sigmoid()
    expected = torch.zeros(())
    for won, chance in ((1, p), (0, 1 - p)):
        middle = (p + won) / 2
        heun, averaged = middle * (1 - middle), gumbel_rao_slope(middle.logit(), temperature, won)
        if name == "reinmax-rao":
            slope = 2 * averaged
        else:
            slope = 2 * heun + scale * (averaged - heun / temperature)
        expected = expected + chance * (slope - p * (1 - p) / 2)
    options = {} if scale is None else {"scale": scale}
    estimator = carms.make(
        name, samples=3, temperature=temperature, draws=2, coupling=coupling, **options
    )
    _, gradients = replicate(
        estimator,
        lambda z, _: z[..., 0, 1],
        torch.stack((torch.zeros(()), logit)).double().unsqueeze(0),
        200_000,
    )
    assert gradients.agrees_with(torch.stack((-expected, expected)).unsqueeze(0))


@pytest.mark.parametrize(("scale", "other"), [(0.0, "reinmax"), (2.0, "reinmax-rao")])
def test_reinmax_cv_lies_between_reinmax_and_reinmax_rao(scale, other):
    logits, f = logits_of(6, 2, 3), polynomial(3)
    end = gradient_of(carms.make(other, samples=4), f, logits)
    torch.testing.assert_close(
        gradient_of(carms.make("reinmax-cv", samples=4, scale=scale), f, logits), end
    )
    assert not torch.allclose(gradient_of(carms.make("reinmax-cv", samples=4), f, logits), end)


@pytest.mark.parametrize("name", ["reinmax-rao", "reinmax-cv"])
def test_successors_of_reinmax_have_less_variance(name):
    probs, f = dirichlet_probs(1.0, 3, 5, seed=2), network(3, 5)
    both = [
        replicate(carms.make(which, samples=4), lambda z, _: f(z), probs.log(), 4_000)[1]
        for which in (name, "reinmax")
    ]
    assert both[0].variance.sum() < 0.9 * both[1].variance.sum()
