"""Leave-one-out regression."""

import pytest
import torch
from helpers import (
    Moments,
    RandomTable,
    configurations,
    dirichlet_probs,
    generator,
    gradient_of,
    replicate,
)

import carms
from carms.estimators.ridge import leave_one_out


def test_leave_one_out_is_a_regression_without_each_sample():
    features = torch.randn(3, 5, 4, generator=generator(1), dtype=torch.float64)
    features[:, 1] = features[:, 0]  # samples repeat
    values = torch.randn(3, 5, generator=generator(2), dtype=torch.float64)
    values -= values.mean(-1, keepdim=True)
    penalty = torch.tensor([0.3, 1.0, 1e-3], dtype=torch.float64)
    residual, coefficient = leave_one_out(features @ features.mT, penalty, values.unsqueeze(-1))
    residual = residual.squeeze(-1)
    mean = (coefficient * features).sum(-2)
    for row in range(3):
        regressions = []
        for n in range(5):
            others = [m for m in range(5) if m != n]
            x, y = features[row, others], values[row, others]
            gram = x.T @ x + penalty[row] * torch.eye(4, dtype=torch.float64)
            regressions.append(torch.linalg.solve(gram, x.T @ (y - y.mean())))
            left = values[row, n] - features[row, n] @ regressions[-1]
            torch.testing.assert_close(residual[row, n], left, rtol=1e-8, atol=1e-10)
        expected = torch.stack(regressions).mean(0)
        torch.testing.assert_close(mean[row], expected, rtol=1e-8, atol=1e-10)


def test_two_samples_are_loorf():
    f, logits = RandomTable(2, 3), torch.zeros(50, 2, 3, dtype=torch.float64).requires_grad_()
    found, expected = (gradient_of(carms.make(n, samples=2), f, logits) for n in ("ridge", "loorf"))
    assert expected.abs().sum() > 0
    torch.testing.assert_close(found, expected)


def ratio(f, probs, samples, replicates, chunk):
    """Variance relative to ``loorf``, in batches of ``chunk``, without a past."""
    found = [
        replicate(made, lambda z, _: f(z), probs.log(), replicates, chunk=chunk)[1].variance.sum()
        for made in (
            carms.make("ridge", samples=samples).eval(),
            carms.make("loorf", samples=samples),
        )
    ]
    return float(found[0] / found[1])


def additive(variables, categories):
    weight = torch.randn(variables, categories, generator=generator(4), dtype=torch.float64)
    return lambda z: (z * weight).sum((-2, -1))


def test_a_sum_over_the_variables_is_explained():
    probs = dirichlet_probs(1.0, 10, 2)
    assert ratio(additive(10, 2), probs, 16, 2000, 50) < 0.3


def parity(z):
    """Nothing but an interaction where both categories are equally probable."""
    return (z[..., 0] - z[..., 1]).prod(-1)


def test_interactions_do_not_hurt_in_a_batch():
    probs = torch.full((3, 2), 0.5, dtype=torch.float64)
    assert ratio(parity, probs, 4, 5000, 50) < 1.05
    # Alone, the regression is used as it is.
    assert ratio(parity, probs, 4, 2000, 1) > 1.2


def single_gradients(estimator, f, logits, calls):
    source, rows = generator(5), []
    for _ in range(calls):
        value = estimator.expectation(f, logits, source)
        rows.append(torch.autograd.grad(value, logits)[0])
    return torch.stack(rows)


def test_scale_of_a_single_example_comes_from_past_calls():
    f, probs = RandomTable(3, 2, seed=3), dirichlet_probs(100.0, 3, 2, seed=3)
    f.values = parity(configurations(3, 2)).view(2, 2, 2)
    logits = probs.log().requires_grad_()
    estimator = carms.make("ridge", samples=4)
    before = single_gradients(estimator.eval(), f, logits, 500)
    assert estimator.past.count == 0
    single_gradients(estimator.train(), f, logits, 100)
    assert estimator.past.count > 50
    saved = {key: value.clone() for key, value in estimator.state_dict().items()}
    after = single_gradients(estimator.eval(), f, logits, 3000)
    assert after.var(0).sum() < 0.9 * before.var(0).sum()
    moments = Moments()
    moments.add(after)
    assert moments.agrees_with(f.expectation(probs)[1])
    resumed = carms.make("ridge", samples=4).eval()
    resumed.load_state_dict(saved)
    assert torch.equal(single_gradients(resumed, f, logits, 5), after[:5])


def test_a_draw_is_never_part_of_its_own_past():
    f, logits = RandomTable(3, 2), torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    estimator = carms.make("ridge", samples=4)
    single_gradients(estimator, f, logits, 30)
    draw = estimator.sample(logits, generator(1))
    first, second = (
        torch.autograd.grad(estimator.surrogate(draw, f(draw.z)), logits)[0] for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("inf")])
def test_bad_penalties(penalty):
    with pytest.raises(ValueError, match=f"penalty must be positive and finite, got {penalty}"):
        carms.make("ridge", penalty=penalty)
