"""Different names for, and different roads to, the same estimator."""

import itertools
from dataclasses import replace

import pytest
import torch
from helpers import RandomTable, dirichlet_probs, generator, logits_of
from torch.distributions import Bernoulli

import carms
from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified
from carms.couplings import GumbelMax, InverseCDF
from carms.estimators import Carms


def gradient(estimator, draw, values, logits):
    return torch.autograd.grad(estimator.surrogate(draw, values).sum(), logits)[0]


def drawn_gradient(name, f, logits, seed=0, **options):
    estimator = carms.make(name, **options)
    draw = estimator.sample(logits, generator(seed))
    return draw, gradient(estimator, draw, f(draw.z), logits)


@pytest.mark.parametrize("samples", [2, 3, 8])
@pytest.mark.parametrize(
    "coupling",
    [
        lambda n: InverseCDF(Independent(n)),
        lambda n: InverseCDF(Independent(n), "all"),
        lambda n: GumbelMax(Independent(n)),
        lambda n: InverseCDF(Circular(n), epsilon=1.0),
    ],
    ids=["given", "all", "gumbel", "epsilon 1"],
)
def test_carms_on_independent_samples_is_loorf(samples, coupling):
    logits, f = logits_of(7, 2, 4), RandomTable(2, 4)
    independent, loorf = Carms(coupling(samples)), carms.make("loorf", samples=samples)
    draw = independent.sample(logits, generator(1))
    values = f(draw.z)
    one = gradient(independent, draw, values, logits)
    same = replace(draw, maker=loorf)
    torch.testing.assert_close(one, gradient(loorf, same, values, logits), rtol=1e-12, atol=1e-14)
    assert one.abs().sum() > 0


@pytest.mark.parametrize("samples", [2, 3, 4, 9])
def test_carms_i_of_two_categories_is_arms(samples):
    logits, f = logits_of(200, 3, 2), RandomTable(3, 2)
    ours, ours_gradient = drawn_gradient("carms-i", f, logits, samples=samples)
    arms, arms_gradient = drawn_gradient("arms", f, logits, samples=samples)
    assert torch.equal(ours.indices, arms.indices)
    torch.testing.assert_close(ours_gradient, arms_gradient, rtol=1e-12, atol=1e-12)


def test_carms_i_of_a_bernoulli_is_arms():
    logits, f = logits_of(200, 3), RandomTable(3, 2)
    found = []
    for name in ("carms-i", "arms"):
        given = Bernoulli(logits=logits)
        value = carms.expectation(f.of_indices, given, name, 4, generator(0))
        found.append(torch.autograd.grad(value.sum(), logits)[0])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def disarm_by_hand(indices, values, logits):
    """``1/2 (f - f') (z - z') max(p, 1 - p)`` for the logit of the second category."""
    p = logits.detach().softmax(-1)[..., 1]
    first, second = indices.double()
    return (values[0] - values[1]).unsqueeze(-1) / 2 * (first - second) * torch.maximum(p, 1 - p)


@pytest.mark.parametrize("name", ["arms", "disarm", "carms-i", "carts"])
def test_two_antithetic_binary_samples_are_disarm(name):
    logits, f = logits_of(500, 3, 2), RandomTable(3, 2)
    draw, found = drawn_gradient(name, f, logits, samples=2)
    by_hand = disarm_by_hand(draw.indices, f(draw.z), logits)
    torch.testing.assert_close(found[..., 1], by_hand, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(found[..., 0], -by_hand, rtol=1e-10, atol=1e-13)
    assert by_hand.abs().sum() > 0


def test_two_samples_of_disarm_are_antithetic():
    # At p = 1/2 the two always differ; otherwise the likelier value may come twice.
    draw = carms.make("disarm", samples=2).sample(torch.zeros(500, 1, 2), generator())
    assert (draw.indices.sum(0) == 1).all()
    probs = torch.tensor([0.8, 0.2])
    draw = carms.make("disarm", samples=2).sample(probs.log().expand(500, 1, 2), generator())
    assert set(draw.indices.sum(0).unique().tolist()) == {0, 1}


def test_more_samples_of_disarm_and_carts_are_more_pairs():
    for name in ("disarm", "carts"):
        estimator = carms.make(name, samples=6)
        logits, f = logits_of(50, 2, 2), RandomTable(2, 2)
        draw = estimator.sample(logits, generator(3))
        values = f(draw.z)
        pairs = [
            disarm_by_hand(draw.indices[[k, k + 3]], values[[k, k + 3]], logits) for k in range(3)
        ]
        found = gradient(estimator, draw, values, logits)
        torch.testing.assert_close(found[..., 1], sum(pairs) / 3, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("categories", [2, 3, 5])
def test_carts_is_carms_i_with_two_samples(categories):
    logits, f = logits_of(100, 2, categories), RandomTable(2, categories)
    carts, carts_gradient = drawn_gradient("carts", f, logits, samples=2)
    carms_i, carms_i_gradient = drawn_gradient("carms-i", f, logits, samples=2)
    assert torch.equal(carts.indices, carms_i.indices)
    assert torch.equal(carts_gradient, carms_i_gradient)


@pytest.mark.parametrize(
    ("alias", "name"), [("rloo", "loorf"), ("vargrad", "loorf"), ("u2g", "disarm")]
)
def test_aliases(alias, name):
    logits, f = logits_of(50, 2, 2), RandomTable(2, 2)
    assert type(carms.make(alias, samples=4)) is type(carms.make(name, samples=4))
    one, one_gradient = drawn_gradient(alias, f, logits, samples=4)
    other, other_gradient = drawn_gradient(name, f, logits, samples=4)
    assert torch.equal(one.indices, other.indices)
    assert torch.equal(one_gradient, other_gradient)
    assert alias not in carms.available()


@pytest.mark.parametrize(
    ("name", "coupling"),
    [
        ("carms-i", InverseCDF(Dirichlet(3), "all")),
        ("carms-s", InverseCDF(Circular(3), "given")),
    ],
)
def test_a_name_is_a_copula_with_its_orderings(name, coupling):
    logits, f = logits_of(50, 2, 4), RandomTable(2, 4)
    named, named_gradient = drawn_gradient(name, f, logits, samples=3)
    estimator = Carms(coupling)
    draw = estimator.sample(logits, generator(0))
    assert torch.equal(named.indices, draw.indices)
    torch.testing.assert_close(named_gradient, gradient(estimator, draw, f(draw.z), logits))


def test_a_copula_brings_its_own_number_of_samples():
    assert carms.make("carms-i", copula=Circular(3)).samples == 3
    assert carms.make("carms-i").samples == 8


@pytest.mark.parametrize(
    "coupling",
    [
        InverseCDF(Circular(4)),
        InverseCDF(Circular(4), 3, epsilon=0.1),
        InverseCDF(Dirichlet(4), "all"),
        InverseCDF(Dirichlet(4, reflected=True), "largest-first"),
        InverseCDF(Gaussian(4)),
        InverseCDF(Stratified(4)),
        GumbelMax(Dirichlet(4)),
    ],
    ids=repr,
)
def test_carms_is_its_formula(coupling):
    """The sum over ordered pairs as printed, with the ratio from the joint table."""
    probs = dirichlet_probs(1.0, 20, 2, 4, seed=2, floor=0.01)
    logits, f = probs.log().requires_grad_(), RandomTable(2, 4)
    estimator = Carms(coupling)
    draw = estimator.sample(logits, generator(1))
    values, ratio = f(draw.z), probs.unsqueeze(-1) * probs.unsqueeze(-2) / coupling.pmf(probs)
    expected = torch.zeros_like(probs)
    for n, m in itertools.permutations(range(4), 2):
        z, other = draw.z[n], draw.z[m]
        of_first = ratio.gather(-2, draw.indices[n][..., None, None].expand(-1, -1, 1, 4))
        pair_ratio = of_first.squeeze(-2).gather(-1, draw.indices[m].unsqueeze(-1))
        # A category drawn twice has no effect, whatever its ratio.
        pair_ratio = pair_ratio.where((z != other).any(-1, keepdim=True), 0)
        difference = (values[n] - values[m]).view(-1, 1, 1) / 2
        expected += difference * (z - other) * pair_ratio / 12
    tolerance = 1e-6 if isinstance(coupling, GumbelMax) else 1e-9
    found = gradient(estimator, draw, values, logits)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_loorf_is_its_formula():
    logits, f = logits_of(20, 2, 3), RandomTable(2, 3)
    draw, found = drawn_gradient("loorf", f, logits, samples=5)
    values = f(draw.z)
    expected = torch.zeros_like(found)
    for n in range(5):
        others = (values.sum(0) - values[n]) / 4
        score = draw.z[n] - logits.detach().softmax(-1)
        expected += (values[n] - others).view(-1, 1, 1) * score / 5
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_reinforce_is_its_formula():
    logits, f = logits_of(20, 2, 3), RandomTable(2, 3)
    draw, found = drawn_gradient("reinforce", f, logits, samples=5)
    score = draw.z - logits.detach().softmax(-1)
    expected = (f(draw.z).view(5, 20, 1, 1) * score).mean(0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["loorf", "carms-s", "carms-i", "carms-g", "carts"])
def test_only_drawn_categories_get_a_gradient(name):
    logits, f = logits_of(50, 2, 6), RandomTable(2, 6)
    draw, found = drawn_gradient(name, f, logits, samples=2)
    undrawn = draw.z.sum(0) == 0
    assert (found[undrawn] == 0).all()
    assert (found[~undrawn] != 0).any()
