"""Baselines of REINFORCE."""

import pytest
import torch
from estimator_cases import results
from helpers import RandomTable, generator, logits_of

import carms


def test_running_mean_is_that_of_past_calls_and_is_saved():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean", decay=0.5)
    logits = logits_of(3, 2, 3)

    def gradient(made, shift):
        return results(made, lambda z: shift + z[..., 0].sum(-1), logits)[1]

    # The first call has no past: the gradient of plain REINFORCE.
    plain = carms.make("reinforce", samples=4)
    torch.testing.assert_close(gradient(estimator, 100.0), gradient(plain, 100.0))
    saved = {key: value.clone() for key, value in estimator.state_dict().items()}
    assert saved
    second = gradient(estimator, 100.0)
    assert second.abs().max() < gradient(plain, 100.0).abs().max() / 10

    resumed = carms.make("reinforce", samples=4, baseline="running-mean", decay=0.5)
    resumed.load_state_dict(saved)
    torch.testing.assert_close(gradient(resumed, 100.0), second)


def test_running_mean_learns_only_where_a_gradient_is_wanted():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    logits = logits_of(3, 2, 3)
    assert estimator.stateful
    assert not carms.make("reinforce", samples=4, baseline=1.0).stateful
    before = {key: value.clone() for key, value in estimator.state_dict().items()}

    def unchanged():
        return all(torch.equal(before[key], value) for key, value in estimator.state_dict().items())

    with torch.no_grad():
        estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert unchanged()
    estimator.eval()
    estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert unchanged()
    estimator.train()
    value = estimator.expectation(lambda z: 5 + z[..., 0].sum(-1), logits)
    assert unchanged()
    value.sum().backward()
    assert not unchanged()


def test_constant_baseline_shifts_f():
    logits = logits_of(3, 2, 3)
    f = RandomTable(2, 3)
    _, shifted = results(carms.make("reinforce", samples=4), lambda z: f(z) - 0.7, logits)
    _, baseline = results(carms.make("reinforce", samples=4, baseline=0.7), f, logits)
    torch.testing.assert_close(baseline, shifted, rtol=1e-12, atol=1e-14)


def test_contributions_do_not_move_the_running_mean():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    draw, values = estimator.sample(logits_of(3, 2, 3), generator()), torch.randn(4, 3)
    estimator.surrogate(draw, values).sum().backward()
    before = {key: value.clone() for key, value in estimator.state_dict().items()}
    first = estimator.contributions(draw, values)
    assert torch.equal(estimator.contributions(draw, values), first)
    for key, value in estimator.state_dict().items():
        assert torch.equal(before[key], value)


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_running_mean_keeps_that_share_of_the_past(decay):
    logits = logits_of(3, 2, 3)

    def gradient(made, value):
        return results(made, lambda z: value + 0 * z.sum((-2, -1)), logits)[1]

    estimator = carms.make("reinforce", samples=4, baseline="running-mean", decay=decay)
    for value in (10.0, 30.0):
        gradient(estimator, value)
    past = (decay * 10 + 30) / (decay + 1)
    expected = gradient(carms.make("reinforce", samples=4, baseline=past), 50.0)
    torch.testing.assert_close(gradient(estimator, 50.0), expected, rtol=1e-5, atol=1e-5)


def test_a_draw_is_never_part_of_its_own_baseline():
    estimator = carms.make("reinforce", samples=1, baseline="running-mean", decay=0.5)
    logits, f = logits_of(3, 2, 3), RandomTable(2, 3)
    draw = estimator.sample(logits, generator())
    first, second = (
        torch.autograd.grad(estimator.surrogate(draw, f(draw.z)).sum(), logits)[0] for _ in "ab"
    )
    assert torch.equal(first, second)
    assert first.abs().sum() > 0


def test_a_transform_neither_fails_nor_is_remembered():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    before = {key: value.clone() for key, value in estimator.state_dict().items()}
    logits = logits_of(3, 2, 3).detach()

    def value(x):
        return estimator.expectation(lambda z: z[..., 0].sum(-1), x, generator()).sum()

    found = torch.func.grad(value)(logits)
    assert found.isfinite().all()
    assert all(torch.equal(before[key], now) for key, now in estimator.state_dict().items())
