"""CARMS-T: trapezoid slopes, neighbours, and scales fitted on other examples."""

import pytest
import torch
from helpers import (
    Moments,
    RandomTable,
    configurations,
    dirichlet_probs,
    generator,
    logits_of,
    replicate,
)
from torch.distributions import Bernoulli

import carms
from carms.estimators.carms_t import CarmsT
from carms.estimators.families.cross_fit import Past, cross_fit, moments
from carms.estimators.families.neighbours import change_one
from carms.estimators.families.trapezoid import trapezoid

REPLICATES = 200_000


def network(variables, categories, steepness, seed=0):
    source = generator(seed)
    first = torch.randn(variables, categories, 8, generator=source, dtype=torch.float64)
    last = torch.randn(8, generator=source, dtype=torch.float64)

    def f(z):
        inner = torch.einsum("...dc,dch->...h", z, first.to(z.dtype)) / variables**0.5
        return 3 + (steepness * inner).tanh() @ last.to(z.dtype)

    return f


def true_gradient(f, probs):
    logits = probs.log().requires_grad_()
    points = configurations(*probs.shape)
    weights = (logits.softmax(-1) * points).sum(-1).prod(-1)
    value = (weights * f(points)).sum()
    return value.item(), torch.autograd.grad(value, logits)[0]


class InGroups(Past):
    """Replicates are a batch dimension, and scales are fitted within groups of a few of them."""

    def __init__(self, terms, group):
        super().__init__(terms)
        self.group = group

    def combine(self, base, terms, before):
        rows = [row.unflatten(0, (-1, self.group)) for row in (base, *terms)]
        own = moments(torch.stack(rows, -3).flatten(-2))
        scales = torch.func.vmap(cross_fit)(own).flatten(0, 1)[..., None, None]
        return base + sum(scales[:, k] * term for k, term in enumerate(terms))


def in_groups(group, **options):
    estimator = CarmsT(**options)
    estimator.past = InGroups(len(estimator.past.total) - 1, group)
    return estimator


def fitted(base, *terms):
    return cross_fit(moments(torch.stack((base, *terms), -3).flatten(-2)))


@pytest.mark.parametrize("group", [1, 2, 3, 50])
@pytest.mark.parametrize("steepness", [0.5, 6.0])
@pytest.mark.parametrize("variables", [1, 3])
@pytest.mark.parametrize("concentration", [0.1, 1, 1000])
def test_unbiased_whatever_the_batch(concentration, variables, steepness, group):
    probs = dirichlet_probs(concentration, variables, 3, seed=7, floor=0.01)
    f = network(variables, 3, steepness)
    estimator = in_groups(group, samples=4)
    rows = 10_000 - 10_000 % group
    values, gradients = replicate(
        estimator, lambda z, _: f(z), probs.log(), 20 * rows, chunk=rows, seed=group
    )
    value, gradient = true_gradient(f, probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize(("samples", "neighbours"), [(2, 1), (3, 2), (5, 4), (10, 2)])
def test_unbiased_with_any_number_of_neighbours(samples, neighbours):
    probs, f = dirichlet_probs(1.0, 2, 3, seed=7, floor=0.01), RandomTable(2, 3, seed=11)
    estimator = in_groups(5, samples=samples, neighbours=neighbours)
    values, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), REPLICATES)
    value, gradient = f.expectation(probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


class Fixed(Past):
    """With scales of our own."""

    def __init__(self, scales):
        super().__init__(len(scales))
        self.scales = scales

    def combine(self, base, terms, before):
        return base + sum(s * term for s, term in zip(self.scales, terms, strict=True))


def scaled(*scales, **options):
    estimator = CarmsT(**options)
    estimator.past = Fixed(scales)
    return estimator


@pytest.mark.parametrize("scales", [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (-0.7, 2.0)])
def test_unbiased_whatever_the_scales(scales):
    probs, f = dirichlet_probs(0.5, 3, 3, seed=7, floor=0.01), RandomTable(3, 3, seed=11)
    estimator = scaled(*scales, samples=5)
    _, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), REPLICATES)
    assert gradients.agrees_with(f.expectation(probs)[1])


def test_without_scales_it_is_carms_s():
    logits, f = logits_of(6, 2, 3), network(2, 3, 1.0)
    estimator = scaled(0.0, 0.0, samples=5, neighbours=2)
    gradient = torch.autograd.grad(estimator.expectation(f, logits, generator(3)).sum(), logits)[0]
    draw = estimator.sample(logits, generator(3))
    carms_s = carms.make("carms-s", samples=3)
    same = carms_s.sample(logits, generator(3))
    assert torch.equal(same.indices, draw.indices[:3])
    value = carms_s.surrogate(same, f(same.z))
    torch.testing.assert_close(gradient, torch.autograd.grad(value.sum(), logits)[0])


def quadratic(z):
    weight = torch.randn(6, 6, generator=generator(5), dtype=torch.float64)
    flat = z.flatten(-2).double()
    return (flat @ weight * flat).sum(-1) + flat @ weight[0]


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


@pytest.mark.parametrize("batch", [(), (1,), (7,), (2, 3)])
@pytest.mark.parametrize("samples", [2, 3, 9])
def test_one_pass_is_two_passes(batch, samples):
    logits, weight = logits_of(*batch, 2, 3), logits_of(2, 3, seed=3)
    upstream = torch.rand(batch, dtype=torch.float64, generator=generator(8)) + 0.5

    def f(z):
        inside = (z * logits.log_softmax(-1)).sum((-2, -1))
        return ((z * weight).sum((-2, -1))).sin() - inside + 100

    estimator = carms.make("carms-t", samples=samples)
    one = estimator.expectation(f, logits, generator(4))
    draw = estimator.sample(logits, generator(4))
    two = estimator.surrogate(draw, f(draw.z))
    torch.testing.assert_close(one, two)
    gradients = [
        torch.autograd.grad((upstream * value).sum(), (logits, weight)) for value in (one, two)
    ]
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second)


def test_a_loss_beside_the_value_does_not_disturb_the_two_step_form():
    logits = logits_of(4, 2, 3)
    estimator = carms.make("carms-t", samples=4)
    gradients = []
    for beside in (0.0, 5.0):
        draw = estimator.sample(logits, generator(4))
        loss = estimator.surrogate(draw, quadratic(draw.z)).sum()
        loss = loss + beside * draw.z.square().sum()
        gradients.append(torch.autograd.grad(loss, logits)[0])
    torch.testing.assert_close(*gradients)


def test_bits_are_categories():
    logits, f = logits_of(6, 3), network(3, 2, 1.0)
    bits = carms.make("carms-t", samples=5).expectation(
        lambda z: f(torch.stack((1 - z, z), -1)), Bernoulli(logits=logits), generator(2)
    )
    both = torch.stack((torch.zeros_like(logits), logits), -1)
    categories = carms.make("carms-t", samples=5).expectation(f, both, generator(2))
    torch.testing.assert_close(bits, categories)
    torch.testing.assert_close(
        *(torch.autograd.grad(value.sum(), logits)[0] for value in (bits, categories))
    )


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


def test_infinite_slopes_of_what_never_happens_do_not_matter():
    logits = torch.tensor([[0.0, -torch.inf, 1.0]]).expand(20, 1, 3).clone().requires_grad_()
    carms.expectation(
        lambda z: (z[..., 1].sqrt() + z[..., 2] ** 2).sum(-1), logits, "carms-t", samples=5
    ).sum().backward()
    assert logits.grad.isfinite().all()


def test_nothing_changes_where_all_is_certain():
    logits = torch.tensor([[0.0, -torch.inf], [200.0, 0.0]]).expand(5, 2, 2).clone()
    logits.requires_grad_()
    carms.expectation(lambda z: z[..., 0].sum(-1) ** 2, logits, "carms-t").sum().backward()
    assert (logits.grad == 0).all()


def test_few_neighbours_of_a_certain_variable():
    # Chosen in proportion to the probability to change: the certain one never.
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]).expand(1000, 2, 3)
    z = torch.tensor([0, 2]).expand(3, 1000, 2)
    changed, reach, _ = change_one(probs, z, generator(0))
    assert (changed[..., 0] == 1).all()
    assert (changed[..., 1] == 2).all()
    torch.testing.assert_close(reach, torch.full_like(reach, 0.5))


def test_a_scale_does_not_depend_on_its_own_example():
    rows = torch.randn(3, 6, 2, 3, generator=generator(0), dtype=torch.float64)
    before = fitted(*rows)
    rows[:, 2] *= -3
    after = fitted(*rows)
    torch.testing.assert_close(before[2], after[2])
    moved = (before - after).abs().amax(-1) > 1e-3
    assert moved.tolist() == [True, True, False, True, True, True]


def test_scales_are_least_squares():
    # Of many examples, so that the pulls hardly matter.
    source = generator(0)
    terms = torch.randn(2, 20_000, 2, 3, generator=source, dtype=torch.float64)
    noise = torch.randn(20_000, 2, 3, generator=source, dtype=torch.float64)
    base = noise - 0.3 * terms[0] - 1.7 * terms[1]
    scales = fitted(base, *terms)
    right = torch.tensor([0.3, 1.7], dtype=torch.float64).expand_as(scales)
    torch.testing.assert_close(scales, right, atol=0.02, rtol=0)
    one = fitted(noise - 0.4 * terms[0], terms[0])
    torch.testing.assert_close(one, torch.full_like(one, 0.4), atol=0.02, rtol=0)


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
def test_nobody_else_means_ones(batch):
    rows = torch.randn(3, *batch, 2, 3, generator=generator(0), dtype=torch.float64)
    assert torch.equal(fitted(*rows), torch.ones(*batch, 2, dtype=torch.float64))


def variance(estimator, f, logits, replicates):
    rows = []
    for _ in range(replicates):
        leaf = logits.clone().requires_grad_()
        rows.append(torch.autograd.grad(estimator.expectation(f, leaf).sum(), leaf)[0])
    return torch.stack(rows).var(0).sum().item()


def test_past_calls_fit_the_scales_where_there_is_no_batch():
    torch.manual_seed(0)
    logits, f = logits_of(3, 4).detach(), network(3, 4, 20.0)
    learning = carms.make("carms-t", samples=10)
    fresh = carms.make("carms-t", samples=10).eval()
    variance(fresh, f, logits, 100)
    assert not any(value.any() for value in fresh.state_dict().values())
    variance(learning, f, logits, 100)
    assert all(value.any() for value in learning.state_dict().values())
    # Slopes of a staircase mislead; only who has a past can know.
    assert variance(learning, f, logits, 400) < 0.5 * variance(fresh, f, logits, 400)
    again = carms.make("carms-t", samples=10)
    again.load_state_dict(learning.state_dict())
    leaf = logits.clone().requires_grad_()
    values = [one.expectation(f, leaf, generator(3)) for one in (learning, again)]
    assert torch.equal(*(torch.autograd.grad(value, leaf)[0] for value in values))


def test_a_batch_needs_no_past():
    estimator = carms.make("carms-t", samples=6)
    logits = logits_of(2, 2, 3)
    for _ in range(30):
        torch.autograd.grad(estimator.expectation(quadratic, logits).sum(), logits)
    assert not any(value.any() for value in estimator.state_dict().values())


def test_unbiased_with_a_past():
    torch.manual_seed(1)
    probs, f = dirichlet_probs(1.0, 1, 3, seed=7, floor=0.05), network(1, 3, 3.0)
    estimator, found = carms.make("carms-t", samples=3), []
    for _ in range(3000):
        logits = probs.log().requires_grad_()
        found.append(torch.autograd.grad(estimator.expectation(f, logits), logits)[0])
    gradients = Moments()
    gradients.add(torch.stack(found))
    assert gradients.agrees_with(true_gradient(f, probs)[1])


@pytest.mark.parametrize(("steepness", "limit"), [(0.3, 0.1), (1.0, 0.3), (3.0, 1.05), (8.0, 1.05)])
def test_variance_against_carms_s_on_the_same_base_samples(steepness, limit):
    torch.manual_seed(2)
    probs = dirichlet_probs(1.0, 6, 5, seed=1, floor=0.01)
    f, logits = network(6, 5, steepness), probs.log().expand(5000, 6, 5)
    found = []
    for estimator in (in_groups(50, samples=10), carms.make("carms-s", samples=8)):
        leaf = logits.clone().requires_grad_()
        gradient = torch.autograd.grad(estimator.expectation(f, leaf).sum(), leaf)[0]
        found.append(gradient.var(0).sum())
    assert found[0] < limit * found[1]


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype, size):
    logits = logits_of(40, 2, 3).detach().to(dtype)
    weight = torch.randn(2, 3, generator=generator(1))
    gradients = []
    for given in (logits, logits.float()):
        leaf = given.clone().requires_grad_()
        value = carms.make("carms-t", samples=6).expectation(
            lambda z: size * (z.float() * weight).sum((-2, -1)).sin(), leaf, generator(2)
        )
        gradients.append(torch.autograd.grad(value.sum() / size, leaf)[0].float())
    # Slopes that come through a small share of the value would underflow.
    torch.testing.assert_close(*gradients, rtol=0.01, atol=2e-3)


def test_autocast():
    logits, weight = logits_of(40, 2, 3).float().detach(), torch.randn(6, 4)
    leaf = logits.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = carms.expectation(
            lambda z: (z.flatten(-2) @ weight).sin().float().sum(-1), leaf, "carms-t"
        )
    value.sum().backward()
    assert leaf.grad.isfinite().all()


def test_an_example_that_nobody_asks_for_disturbs_nobody():
    logits = logits_of(3, 2, 3)
    value = carms.make("carms-t", samples=4).expectation(quadratic, logits, generator(1))
    value[:2].sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[2] == 0).all()
    assert logits.grad[:2].abs().min() > 0


def test_f_may_write_on_its_samples():
    logits, gradients = logits_of(4, 2, 3), []
    for dirty in (False, True):

        def f(z, dirty=dirty):
            if dirty:
                z = z.mul_(2)
            return quadratic(z if dirty else 2 * z)

        value = carms.make("carms-t", samples=4).expectation(f, logits, generator(1))
        gradients.append(torch.autograd.grad(value.sum(), logits)[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 1}, "carms-t needs at least 2 samples, got samples=1"),
        ({"samples": 4, "neighbours": 4}, "got neighbours=4 of samples=4"),
        ({"samples": 4, "neighbours": 0}, "got neighbours=0 of samples=4"),
    ],
)
def test_bad_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        carms.make("carms-t", **options)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_slopes_that_are_not_finite(batch):
    logits = logits_of(*batch, 2, 3)
    estimator = carms.make("carms-t", samples=4)

    def f(z):
        return (1 - z).sqrt().sum((-2, -1))

    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(f, logits).sum().backward()
    draw = estimator.sample(logits)
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.surrogate(draw, f(draw.z))


def test_slopes_of_neighbours_that_are_not_finite():
    # Only the category that base samples hardly ever have is bad.
    logits = torch.tensor([[9.0, 0.0]]).expand(4, 1, 2).clone().requires_grad_()
    estimator = carms.make("carms-t", samples=4)
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(lambda z: (1 - z[..., 1]).sqrt().sum(-1), logits).sum().backward()


def test_an_infinite_loss_is_not_the_fault_of_the_slopes():
    logits = logits_of(4, 2, 3)
    value = carms.expectation(quadratic, logits, "carms-t", samples=4)
    (gradient,) = torch.autograd.grad(value.sum() * torch.inf, logits)
    assert gradient.isnan().all()


def test_no_second_derivative():
    logits = logits_of(4, 2, 3)
    value = carms.expectation(quadratic, logits, "carms-t", samples=4)
    (gradient,) = torch.autograd.grad(value.sum(), logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_past_in_half_precision_stays_finite():
    estimator, logits = carms.make("carms-t", samples=6).half(), logits_of(3, 4)
    for _ in range(40):
        value = estimator.expectation(lambda z: 1e4 * network(3, 4, 3.0)(z), logits)
        torch.autograd.grad(value, logits)
    assert estimator.past.total.dtype == torch.float16
    assert estimator.past.total.isfinite().all()
    assert estimator.past.count > 20


def test_an_f_in_half_precision_has_a_backward_pass_of_its_own():
    logits = logits_of(40, 2, 3).float().detach().requires_grad_()
    weight = torch.randn(2, 3, generator=generator(1))

    def gradient(dtype):
        value = carms.make("carms-t", samples=6).expectation(
            lambda z: (z.to(dtype) * weight.to(dtype)).sum((-2, -1)).sin(), logits, generator(2)
        )
        return torch.autograd.grad(1e-4 * value.float().sum(), logits)[0]

    torch.testing.assert_close(
        gradient(torch.float16), gradient(torch.float32), rtol=0.02, atol=5e-7
    )
