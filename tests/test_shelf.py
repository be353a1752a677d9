"""What is special to single estimators: two ways to the same number, and the bias of the biased."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from helpers import (
    Moments,
    RandomTable,
    assert_frequencies,
    configurations,
    dirichlet_probs,
    generator,
    replicate,
)

import carms
from carms.estimators.rebar import Relaxation
from carms.estimators.unord import set_weights, stochastic_beam_search
from carms.evaluations import distinct, neighbour_table, neighbours
from carms.gumbel import exponentials, perturbed, perturbed_given
from carms.inputs import Variables


def logits_of(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64, requires_grad=True)


def gradient_of(estimator, f, logits, seed=1):
    value = estimator.expectation(f, logits, generator(seed))
    return torch.autograd.grad(value.sum(), logits)[0]


# Sets of samples without replacement.


def set_probability(probs, members):
    """That drawing without replacement from a dictionary gives these first, in whatever order."""
    total = Fraction(0)
    for order in itertools.permutations(members):
        chance, rest = Fraction(1), sum(probs.values())
        for one in order:
            chance *= probs[one] / rest
            rest -= probs[one]
        total += chance
    return total


def without(probs, *left_out):
    return {key: value for key, value in probs.items() if key not in left_out}


@pytest.mark.parametrize("members", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 1000.0])
def test_weights_of_sets_are_those_of_permutations(members, concentration):
    drawn = dirichlet_probs(concentration, members + 2, seed=members, floor=1e-9)
    exact = [Fraction(float(p)) for p in drawn]
    probs = {key: p / sum(exact) for key, p in enumerate(exact)}
    chosen = range(members)
    log_p = torch.tensor([math.log(probs[s]) for s in chosen], dtype=torch.float64)
    outside = float(sum(probs[s] for s in probs if s >= members))
    first, second = set_weights(log_p, torch.tensor(outside, dtype=torch.float64))
    whole = set_probability(probs, chosen)
    for s in chosen:
        one_out = set_probability(without(probs, s), [m for m in chosen if m != s])
        assert first[s].item() == pytest.approx(float(probs[s] * one_out / whole), rel=1e-8)
        assert second[s, s].item() == pytest.approx(float(probs[s]))
        for t in chosen:
            if t != s:
                rest = [m for m in chosen if m not in (s, t)]
                two_out = set_probability(without(probs, s, t), rest)
                expected = float(probs[t] * two_out / one_out)
                assert second[s, t].item() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("members", [2, 10, 64])
def test_weights_of_equally_likely_members(members):
    log_p = torch.full((members,), -math.log(2 * members), dtype=torch.float64)
    first, second = set_weights(log_p, torch.tensor(0.5, dtype=torch.float64))
    torch.testing.assert_close(first, torch.full_like(first, 1 / members), rtol=1e-8, atol=0)
    rows = second.sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=1e-8, atol=0)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-3])
def test_weights_of_hopeless_and_of_certain_members(scale):
    # One member has nearly all the probability; the weights are still finite and right.
    p = torch.tensor([1 - 3 * scale, scale, scale], dtype=torch.float64)
    first, second = set_weights(p.log(), torch.tensor(scale, dtype=torch.float64))
    assert first.isfinite().all()
    assert second.isfinite().all()
    torch.testing.assert_close(first[0], p[0], rtol=1e-6, atol=10 * scale)


def test_beams_are_draws_without_replacement():
    probs = dirichlet_probs(1.0, 2, 3, seed=5, floor=0.05)
    draws = 200_000
    beam, log_p, outside = stochastic_beam_search(probs.log().expand(draws, 2, 3), 2, generator())
    joint = torch.einsum("i,j->ij", *probs).flatten()
    labels = beam[..., 0] * 3 + beam[..., 1]
    torch.testing.assert_close(log_p.exp(), joint[labels])
    torch.testing.assert_close(outside, 1 - joint[labels].sum(-1))
    pairs = torch.bincount(labels[:, 0] * 9 + labels[:, 1], minlength=81).view(9, 9) / draws
    expected = joint.unsqueeze(-1) * joint / (1 - joint.unsqueeze(-1))
    assert_frequencies(pairs.double(), expected.fill_diagonal_(0), draws)


@pytest.mark.parametrize("samples", [9, 12])
def test_a_set_of_everything_gives_the_exact_gradient(samples):
    logits, f = logits_of(4, 2, 3), RandomTable(2, 3)
    unord, exact = carms.make("unord", samples=samples), carms.make("exact")
    expected = gradient_of(exact, f, logits)
    torch.testing.assert_close(gradient_of(unord, f, logits), expected, rtol=0, atol=1e-12)
    draw = unord.sample(logits, generator())
    labels = draw.indices[..., 0] * 3 + draw.indices[..., 1]
    assert all(len(labels[:9, row].unique()) == 9 for row in range(4))


def test_many_beams_of_many_variables():
    logits = logits_of(3, 20, 10)
    draw = carms.make("unord", samples=64).sample(logits, generator())
    rows = draw.indices.movedim(0, 1)
    assert all(len(row.unique(dim=0)) == 64 for row in rows)
    weight, second = draw.extra
    assert weight.isfinite().all()
    assert (weight > 0).all()
    assert second.isfinite().all()
    # A mean of ones: their weights add up to one on average, and nearly so for rare members.
    torch.testing.assert_close(weight.sum(0), torch.ones(3).double(), rtol=0.2, atol=0)


# ARSM, ARM and DisARM.


def test_arsm_of_two_categories_is_arm():
    logits, f = logits_of(50, 3, 2), RandomTable(3, 2)
    estimator = carms.make("arsm", samples=1)
    draw = estimator.sample(logits, generator(2))
    value = estimator.surrogate(draw, f(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    u, one = draw.extra[0][0, ..., 1], logits.detach().softmax(-1)[..., 1]
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


# Points of evaluation.


@pytest.mark.parametrize("variables", [1, 3, 40])
def test_distinct_points(variables):
    points = torch.randint(0, 2 if variables < 40 else 3, (12, 5, 2, variables))
    points[7] = points[2]
    chosen, place = distinct(points)
    index = place.unsqueeze(-1).expand(12, 5, 2, variables)
    assert torch.equal(chosen.gather(0, index), points)
    assert len(chosen) == max(
        len(points[:, i, j].unique(dim=0)) for i in range(5) for j in range(2)
    )


def test_neighbours_and_their_table():
    probs = dirichlet_probs(1.0, 4, 2, 3, seed=1)
    z = torch.randint(0, 3, (2, 4, 2))
    f = RandomTable(2, 3)
    points = neighbours(z, probs)
    assert torch.equal(points[:2], z)
    table = neighbour_table(f.of_indices(points), z, 3)
    for n, b, d, c in itertools.product(range(2), range(4), range(2), range(3)):
        changed = z[n, b].clone()
        changed[d] = c
        assert table[n, b, d, c] == f.of_indices(changed)


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
    fixed = carms.make("local-expectation", samples=1).sample(logits, generator(3))
    z, probs = fixed.extra
    estimator = carms.make("measure-valued", samples=1)
    source, moments = generator(1), Moments()
    for _ in range(3000):
        drawn = estimator.sample(logits, source)
        other = drawn.extra[2]
        table = neighbour_table(f(fixed.z.detach()), z, 3)
        moments.add(probs * (1 - probs) * (table - table.gather(-1, other)))
    local = carms.make("local-expectation", samples=1)
    (expected,) = torch.autograd.grad(local.surrogate(fixed, f(fixed.z)), logits)
    assert moments.agrees_with(expected)


# Gumbel noise and relaxations.


def test_noise_given_the_winner_is_noise():
    log_probs = dirichlet_probs(1.0, 3, seed=2, floor=0.1).log()
    rows, source = 300_000, generator()
    free = perturbed(log_probs, exponentials((rows, 3), log_probs, source))
    winner = free.argmax(-1)
    fresh = exponentials((rows, 3), log_probs, source)
    given = perturbed_given(log_probs.expand(rows, 3), winner, fresh)
    assert torch.equal(given.argmax(-1), winner)
    features = [torch.cat((x, x.square(), x[:, :2] * x[:, 1:]), -1) for x in (free, given)]
    # Within each winner, means of noise, squares and products agree.
    for category in range(3):
        of = winner == category
        one, other = features[0][of], features[1][of]
        error = ((one.var(0) + other.var(0)) / len(one)).sqrt()
        assert ((one.mean(0) - other.mean(0)).abs() / error).max() < 5


def test_the_two_views_of_a_relaxed_sample_are_equal_and_move_differently():
    logits = logits_of(50, 2, 4)
    seen = Relaxation.draw(Variables(logits), 3, torch.tensor(-0.4), generator())
    torch.testing.assert_close(seen.soft, seen.soft_given, rtol=1e-9, atol=1e-12)
    assert torch.equal(seen.soft.argmax(-1), seen.hard.argmax(-1))
    weight = torch.arange(4.0)
    slopes = [
        torch.autograd.grad((weight * soft).sum(), seen.logits, retain_graph=True)[0]
        for soft in (seen.soft, seen.soft_given)
    ]
    assert (slopes[0] - slopes[1]).abs().max() > 0.1


# The bias of the biased.


def expected_gradient(estimator, f, probs):
    """``E g`` exactly, for estimators whose gradient depends on the hard sample alone."""
    variables, categories = probs.shape
    logits = probs.log().expand(20_000, variables, categories).clone().requires_grad_()
    draw = estimator.sample(logits, generator())
    value = estimator.surrogate(draw, f(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    total, weight = torch.zeros_like(probs), 0.0
    for point in itertools.product(range(categories), repeat=variables):
        (rows,) = torch.where((draw.indices[0] == torch.tensor(point)).all(-1))
        chance = math.prod(probs[d, c].item() for d, c in enumerate(point))
        total += chance * gradient[rows[0]]
        weight += chance
        assert torch.equal(gradient[rows[0]], gradient[rows[-1]])
    assert weight == pytest.approx(1)
    return total


def polynomial(degree, seed=0):
    """A random polynomial of two variables of three categories, linear at degree 1."""
    weights = torch.randn(4, degree, 2, 3, generator=generator(seed), dtype=torch.float64)

    def f(z):
        inner = torch.einsum("...dc,wkdc->...wk", z, weights)
        return inner.prod(-1).sum(-1)

    return f


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


# Learned estimators.


LEARNED = ("double-cv", "rebar", "relax", "rodeo")


def curved(z):
    weight = torch.linspace(-1, 1.5, z.shape[-1], dtype=z.dtype)
    return ((z * weight).sum((-2, -1)) - 0.4).square() + 3


@pytest.mark.parametrize("name", LEARNED)
def test_training_lowers_the_variance(name):
    probs = dirichlet_probs(1.0, 3, 4, seed=3, floor=0.02)
    options = {"double-cv": {"scale": 0.0}, "rebar": {"scale": 0.0}}.get(name, {})
    estimator = carms.make(name, samples=3, **options)
    logits = probs.log().expand(50, 3, 4).clone().requires_grad_()

    def variance():
        _, moments = replicate(
            estimator.eval(), lambda z, _: curved(z), probs.log(), 20_000, seed=5
        )
        return moments.variance.sum().item()

    before = variance()
    optimiser = torch.optim.Adam(estimator.parameters(), lr=0.02)
    estimator.train()
    for _ in range(200):
        optimiser.zero_grad()
        estimator.expectation(curved, logits).sum().backward()
        optimiser.step()
    assert variance() < 0.8 * before


@pytest.mark.parametrize("name", LEARNED)
def test_teaching_does_not_depend_on_what_comes_from_above(name):
    estimator = carms.make(name, samples=3)
    logits = logits_of(5, 2, 3)
    estimator.expectation(curved, logits)

    def taught(scale):
        estimator.zero_grad()
        (scale * estimator.expectation(curved, logits, generator(3)).mean()).backward()
        return [parameter.grad.clone() for parameter in estimator.parameters()]

    for one, other in zip(taught(1.0), taught(-7.0), strict=True):
        assert torch.equal(one, other)
    assert any(gradient.abs().sum() > 0 for gradient in taught(1.0))
    estimator.zero_grad()
    estimator.eval().expectation(curved, logits).sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in estimator.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_is_saved(name):
    logits = logits_of(5, 2, 3)
    first = carms.make(name, samples=3)
    first.expectation(curved, logits)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    second = carms.make(name, samples=3)
    second.load_state_dict(first.state_dict())
    assert torch.equal(gradient_of(first, curved, logits), gradient_of(second, curved, logits))


def test_relax_takes_a_network_of_the_user():
    network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ELU(), torch.nn.Linear(5, 1))
    estimator = carms.make("relax", samples=3, network=network.double())
    assert set(network.parameters()) <= set(estimator.parameters())
    assert gradient_of(estimator, curved, logits_of(5, 2, 3)).isfinite().all()


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if not carms.make(n, samples=4).black_box]
)
def test_an_f_that_autograd_does_not_see_through(name):
    logits = logits_of(5, 2, 3)
    with pytest.raises(ValueError, match=r"autograd sees; loorf and carms-s take any f"):
        carms.expectation(lambda z: z.argmax(-1).double().sum(-1), logits, name, samples=4)


@pytest.mark.parametrize("name", [*LEARNED, "muprop"])
def test_function_transforms_are_refused_with_advice(name):
    def value(row):
        return carms.expectation(curved, row, name, samples=4)

    with pytest.raises(RuntimeError, match="make a batch dimension of what is mapped over"):
        torch.func.vmap(torch.func.grad(value), randomness="different")(torch.zeros(5, 2, 3))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gumbel-softmax", {"temperature": 0.0}, "temperature must be positive and finite, got 0"),
        ("rebar", {"temperature": -1.0}, "temperature must be positive and finite, got -1"),
        ("gapped-st", {"gap": -1.0}, "gap must be finite and not negative, got -1"),
        ("gr-mc", {"draws": 0}, "at least 1 draw of the noise is needed, got draws=0"),
        ("direct-argmax", {"epsilon": 0.0}, "epsilon must be finite and not zero, got 0"),
        ("finite-difference", {"step": 0.0}, "step must be positive and finite, got 0"),
        ("disarm-tree", {"tree": "oak"}, "tree is 'balanced' or 'stick-breaking', got 'oak'"),
        ("vimco", {}, r"vimco is for the importance-weighted bound.*carms\.importance_bound"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        carms.make(name, **options)


def test_a_whole_shelf_is_compared():
    weight = torch.randn(12, 8, generator=generator(1), dtype=torch.float64)
    out = torch.randn(8, generator=generator(2), dtype=torch.float64)

    def two_layers(z):
        return (z.flatten(-2) @ weight).tanh() @ out

    names = [n for n in carms.available() if n not in ("arm", "arms", "disarm", "exact")]
    table = carms.compare(two_layers, logits_of(3, 4), names, samples=4, replicates=30).to_dict()
    assert list(table) == names
    # Soft points are all distinct; of the hard ones, some coincide.
    assert 2 < table["muprop"]["evaluations"] < 5
    assert 5 < table["rebar"]["evaluations"] < 8
    assert table["unord"]["evaluations"] == 4
    for name in names:
        assert table[name]["variance"] > 0
        if carms.make(name, samples=4).unbiased:
            assert table[name]["bias"] < 6 * table[name]["standard_error"], name


@pytest.mark.parametrize("name", LEARNED)
def test_teaching_beside_impossible_categories_is_finite(name):
    logits = torch.tensor([[0.0, 1.0, -torch.inf], [0.3, 0.1, 0.2]]).double().requires_grad_()
    estimator = carms.make(name, samples=3)
    for seed in range(5):
        estimator.expectation(curved, logits, generator(seed)).backward()
    assert logits.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in estimator.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_frozen_parameters_learn_nothing(name):
    estimator, logits = carms.make(name, samples=3), logits_of(5, 2, 3)
    estimator.expectation(curved, logits)
    estimator.requires_grad_(False)
    assert gradient_of(estimator, curved, logits).isfinite().all()


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if not carms.make(n, samples=4).black_box]
)
def test_an_f_with_parameters_that_cuts_z_off(name):
    weight = logits_of(2, 3, seed=4)
    with pytest.raises(ValueError, match="autograd sees"):
        carms.expectation(
            lambda z: (z.detach() * weight).sum((-2, -1)), logits_of(5, 2, 3), name, samples=4
        )


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if n not in ("arm", "arms", "disarm", "muprop", *LEARNED)]
)
# From torch's own code.
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_forward_mode_is_the_backward_mode(name):
    logits, direction = logits_of(3, 2, 3).detach(), logits_of(3, 2, 3, seed=1).detach()

    def value(x):
        return carms.expectation(curved, x, name, 4, generator(2)).sum()

    _, tangent = torch.func.jvp(value, (logits,), (direction,))
    gradient = torch.func.grad(value)(logits)
    torch.testing.assert_close(tangent, (gradient * direction).sum())


# The gradient of a constant is zero on average alone for the others.
@pytest.mark.parametrize(
    "name",
    [n for n in carms.available() if n not in ("rebar", "relax", "reinforce", "unord")],
)
def test_a_large_constant_in_a_precise_f_changes_no_gradient(name):
    logits = torch.randn(5, 2, 2, generator=generator(1), requires_grad=True)

    def f(z, constant):
        return constant + curved(z).double()

    gradients = [
        gradient_of(carms.make(name, samples=4), lambda z, c=c: f(z, c), logits) for c in (0, 1e8)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_f_may_write_on_what_it_is_given():
    logits = logits_of(5, 2, 3)

    def clean(indices):
        return indices.double().square().sum(-1)

    def dirty(indices):
        values = clean(indices)
        indices.zero_()
        return values

    gradients = []
    for f in (clean, dirty):
        value = carms.expectation(f, logits, "carms-s", 4, generator(1), one_hot=False)
        gradients.append(torch.autograd.grad(value.sum(), logits)[0])
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", [n for n in carms.available() if n != "exact"])
def test_no_variables_at_all(name):
    categories = 2 if name in ("arm", "arms", "disarm") else 3
    logits = torch.zeros(4, 0, categories, requires_grad=True)
    value = carms.expectation(lambda z: z.sum((-2, -1)) + 2, logits, name, samples=4)
    torch.testing.assert_close(value, torch.full((4,), 2.0))


def test_a_network_of_the_wrong_shape():
    estimator = carms.make("relax", samples=3, network=torch.nn.Flatten(-2, -1))
    with pytest.raises(ValueError, match=r"the network of relax must map \[3, 5, 6\] to"):
        gradient_of(estimator, curved, logits_of(5, 2, 3))
