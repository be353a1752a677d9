"""The importance-weighted bound, against enumeration of all N samples together."""

import itertools
import math

import pytest
import torch
from helpers import Moments, dirichlet_probs, generator
from torch.distributions import Bernoulli

import carms
from carms import bounds

ESTIMATORS = ("vimco", "leave-one-out", "reinforce")


def model(seed=0):
    """``log p(x, z)`` of two variables of three categories, with a parameter."""
    return torch.randn(3, 3, generator=generator(seed), dtype=torch.float64)


def log_weight(table, logits):
    log_q = logits.log_softmax(-1)

    def f(z):
        joint = torch.einsum("...i,...j,...ij->...", z[..., 0, :], z[..., 1, :], table)
        return joint - (z * log_q).sum((-2, -1))

    return f


def exact_bound(table, logits, samples):
    """``E log mean w`` over all ``9^N`` draws."""
    points = list(itertools.product(range(3), repeat=2))
    log_q = logits.log_softmax(-1)
    log_p_z = torch.stack([log_q[0, i] + log_q[1, j] for i, j in points])
    log_w = torch.stack([table[i, j] for i, j in points]) - log_p_z
    total = 0.0
    for draw in itertools.product(range(9), repeat=samples):
        index = torch.tensor(draw)
        bound = log_w[index].logsumexp(0) - math.log(samples)
        total = total + log_p_z[index].sum().exp() * bound
    return total


def rows_of_gradients(estimator, table, probs, samples, rows=200_000):
    values, gradients, others = Moments(), Moments(), Moments()
    source = generator(3)
    for _ in range(rows // 10_000):
        logits = probs.log().expand(10_000, 2, 3).clone().requires_grad_()
        tables = table.expand(10_000, 3, 3).clone().requires_grad_()
        value = carms.importance_bound(
            log_weight(tables, logits), logits, estimator, samples, source
        )
        gradient, other = torch.autograd.grad(value.sum(), (logits, tables))
        values.add(value.detach())
        gradients.add(gradient)
        others.add(other)
    return values, gradients, others


@pytest.mark.parametrize("samples", [2, 3])
@pytest.mark.parametrize("concentration", [0.5, 1.0, 1000.0])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bound_and_gradients_are_unbiased(estimator, concentration, samples):
    probs = dirichlet_probs(concentration, 2, 3, seed=1, floor=0.05)
    table, logits = model().requires_grad_(), probs.log().requires_grad_()
    truth = exact_bound(table, logits, samples)
    gradient, other = torch.autograd.grad(truth, (logits, table))
    values, gradients, others = rows_of_gradients(estimator, table.detach(), probs, samples)
    assert values.agrees_with(truth.detach())
    assert gradients.agrees_with(gradient)
    assert others.agrees_with(other)


def test_a_baseline_lowers_the_variance():
    probs, table = dirichlet_probs(1.0, 2, 3, seed=1, floor=0.05), model() - 10
    found = {
        name: rows_of_gradients(name, table, probs, 4, rows=20_000)[1].variance.sum()
        for name in ESTIMATORS
    }
    assert found["vimco"] < 0.1 * found["reinforce"]
    assert found["leave-one-out"] < 0.1 * found["reinforce"]


def test_with_one_sample_it_is_reinforce_on_the_log_weight():
    logits = torch.randn(5, 2, 3, generator=generator(1), dtype=torch.float64, requires_grad=True)
    results = []
    for estimate in (carms.importance_bound, carms.expectation):
        f = log_weight(model(), logits)
        value = estimate(f, logits, "reinforce", samples=1, generator=generator(2))
        results.append((value, torch.autograd.grad(value.sum(), logits)[0]))
    torch.testing.assert_close(*results)


def test_huge_weights_do_not_overflow():
    logits = torch.zeros(4, 2, 3, requires_grad=True)
    value = carms.importance_bound(lambda z: 1e4 * z[..., 0].sum(-1) - 5e3, logits, samples=5)
    value.sum().backward()
    assert value.isfinite().all()
    assert logits.grad.isfinite().all()


def test_bits_and_indices():
    logits = torch.zeros(4, 3, requires_grad=True)
    value = carms.importance_bound(lambda z: z.sum(-1), Bernoulli(logits=logits), samples=5)
    assert value.shape == (4,)
    both = torch.zeros(4, 3, 2, requires_grad=True)
    by_index = carms.importance_bound(
        lambda i: i.float().sum(-1), both, samples=5, generator=generator(1), one_hot=False
    )
    by_z = carms.importance_bound(
        lambda z: z[..., 1].sum(-1), both, samples=5, generator=generator(1)
    )
    assert torch.equal(by_index, by_z)


def test_logits_that_are_changed_on_the_way():
    logits = torch.zeros(4, 3, requires_grad=True)

    def changing(z):
        with torch.no_grad():
            logits.add_(1)
        return z[..., 0].sum(-1)

    with pytest.raises(ValueError, match="changed in place"):
        carms.importance_bound(changing, logits, samples=4)


def test_no_grad():
    with torch.no_grad():
        assert not carms.importance_bound(
            lambda z: z[..., 0].sum(-1), torch.zeros(2, 3)
        ).requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "iwae"}, "estimator is 'vimco', 'leave-one-out' or 'reinforce', got 'iwae'"),
        ({"samples": 1}, "vimco needs at least 2 samples, got samples=1"),
        ({"estimator": "reinforce", "samples": 0}, "reinforce needs at least 1 sample, got"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        carms.importance_bound(lambda z: z[..., 0].sum(-1), torch.zeros(2, 3), **options)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_gradient_is_its_formula(estimator):
    """Unbiased it would be whatever a sample is compared with, if only that is of the others."""
    logits = torch.randn(5, 2, 3, generator=generator(1), dtype=torch.float64, requires_grad=True)
    table, seen = model(), []

    def f(z):
        seen.append(z)
        return torch.einsum("...i,...j,ij->...", z[..., 0, :], z[..., 1, :], table)

    value = carms.importance_bound(f, logits, estimator, 4, generator(2))
    (found,) = torch.autograd.grad(value.sum(), logits)
    (z,) = seen
    log_w, expected = f(z), torch.zeros_like(found)
    for n in range(4):
        others = log_w[[m for m in range(4) if m != n]]
        without = {
            "vimco": torch.cat((others, others.mean(0, keepdim=True))).logsumexp(0) - math.log(4),
            "leave-one-out": others.logsumexp(0) - math.log(3),
            "reinforce": torch.zeros(5),
        }[estimator]
        gain = log_w.logsumexp(0) - math.log(4) - without
        expected += gain.view(5, 1, 1) * (z[n] - logits.detach().softmax(-1))
    torch.testing.assert_close(found, expected)


def test_half_precise_weights_are_compared_in_single_precision():
    logits = torch.randn(50, 2, 3, generator=generator(1), requires_grad=True)
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        value = carms.importance_bound(
            lambda z, dtype=dtype: (100 + z[..., 0].sum(-1)).bfloat16().to(dtype),
            logits,
            generator=generator(2),
        )
        found.append(torch.autograd.grad(value.sum(), logits)[0])
    torch.testing.assert_close(*found)


def test_a_log_weight_may_write_on_what_it_is_given():
    logits, found = torch.zeros(4, 3, 2, requires_grad=True), []
    for dirty in (False, True):

        def f(indices, dirty=dirty):
            values = indices.double().sum(-1)
            if dirty:
                indices.zero_()
            return values

        value = carms.importance_bound(f, logits, generator=generator(1), one_hot=False)
        found.append(torch.autograd.grad(value.sum(), logits)[0])
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("log_weight", "message"),
    [
        (lambda z: z.sum(-1), r"\[N, \*batch\] = \[8, 3\], got shape \[8, 3, 2\]"),
        (lambda z: z.sum((-2, -1)) * torch.nan, "log_weight returned NaN or infinity for 24 of 24"),
    ],
    ids=["shape", "nan"],
)
def test_bad_log_weights(log_weight, message):
    with pytest.raises(ValueError, match=message):
        carms.importance_bound(log_weight, torch.zeros(3, 2, 4))


def test_a_sample_that_is_far_off_is_no_part_of_its_own_baseline():
    """In single precision the sum of all less the sample's own was what rounding left of it."""
    values = torch.tensor([-1e9, 0.1, 0.2, 0.4])
    found, right = (bounds._baselines(v, "vimco")[0] for v in (values, values.double()))
    assert found.item() == pytest.approx(right.item(), rel=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_largest_log_weights_leave_the_bound_finite(estimator):
    weights = torch.tensor([3e38, -3e38, 1.0])
    for seed in range(20):
        logits = torch.zeros(1, 3, requires_grad=True)
        value = carms.importance_bound(
            lambda z: (z * weights).sum((-2, -1)), logits, estimator, 4, generator(seed)
        )
        assert value.isfinite()
