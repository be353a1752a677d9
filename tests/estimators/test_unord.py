"""Sets of samples without replacement."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from helpers import (
    RandomTable,
    assert_frequencies,
    dirichlet_probs,
    generator,
    gradient_of,
    logits_of,
)

import carms
from carms.estimators import unord
from carms.estimators.families.arrivals import set_weights
from carms.sampling.without_replacement import first_different, stochastic_beam_search


@pytest.fixture(params=["by whichever is faster", "by beam search"])
def both_ways(request, monkeypatch):
    """Where configurations hardly repeat, there are two ways to draw them."""
    if request.param == "by beam search":
        monkeypatch.setattr(unord, "_RARE", 0.0)


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


@pytest.mark.parametrize("draw_set", [stochastic_beam_search, first_different])
def test_sets_are_draws_without_replacement(draw_set):
    # Two places repeat often here, three more often still: every way to draw again is taken.
    probs = dirichlet_probs(1.0, 2, 3, seed=5, floor=0.05)
    draws = 200_000
    beam, log_p, outside = draw_set(probs.log().expand(draws, 2, 3), 3, generator())
    joint = torch.einsum("i,j->ij", *probs).flatten()
    labels = beam[..., 0] * 3 + beam[..., 1]
    torch.testing.assert_close(log_p.exp(), joint[labels])
    torch.testing.assert_close(outside, 1 - joint[labels].sum(-1))
    numbers = labels @ torch.tensor([81, 9, 1])
    found = torch.bincount(numbers, minlength=729) / draws
    expected = torch.zeros(9, 9, 9, dtype=torch.float64)
    for one, two, three in itertools.permutations(range(9), 3):
        after = joint[one] * joint[two] / (1 - joint[one])
        expected[one, two, three] = after * joint[three] / (1 - joint[one] - joint[two])
    assert_frequencies(found.double().view(9, 9, 9), expected, draws)


def test_what_repeats_often_is_searched_for(monkeypatch):
    # One of the rows is nearly certain: drawing again until it differs would take for ever.
    monkeypatch.setattr(unord, "first_different", None)
    logits = torch.zeros(4, 5, 3, dtype=torch.float64)
    logits[2, :, 0] = 40
    assert carms.make("unord", samples=3).sample(logits, generator()).indices.shape == (3, 4, 5)


def test_what_hardly_repeats_is_not(monkeypatch):
    monkeypatch.setattr(unord, "stochastic_beam_search", None)
    draw = carms.make("unord", samples=3).sample(torch.zeros(4, 5, 3), generator())
    assert draw.indices.shape == (3, 4, 5)


@pytest.mark.parametrize("samples", [9, 12])
def test_a_set_of_everything_gives_the_exact_gradient(samples):
    logits, f = logits_of(4, 2, 3), RandomTable(2, 3)
    sets, exact = carms.make("unord", samples=samples), carms.make("exact")
    expected = gradient_of(exact, f, logits)
    torch.testing.assert_close(gradient_of(sets, f, logits), expected, rtol=0, atol=1e-12)
    draw = sets.sample(logits, generator())
    labels = draw.indices[..., 0] * 3 + draw.indices[..., 1]
    assert all(len(labels[:9, row].unique()) == 9 for row in range(4))


@pytest.mark.usefixtures("both_ways")
def test_many_sets_of_many_variables():
    logits = logits_of(3, 20, 10)
    draw = carms.make("unord", samples=64).sample(logits, generator())
    rows = draw.indices.movedim(0, 1)
    assert all(len(row.unique(dim=0)) == 64 for row in rows)
    weight, second = draw.memory
    assert weight.isfinite().all()
    assert (weight > 0).all()
    assert second.isfinite().all()
    # A mean of ones: their weights add up to one on average, and nearly so for rare members.
    torch.testing.assert_close(weight.sum(0), torch.ones(3).double(), rtol=0.2, atol=0)


@pytest.mark.usefixtures("both_ways")
def test_configurations_too_unlikely_for_a_float():
    logits = torch.linspace(0, 1.5, 10).expand(300, 400, 10).clone().requires_grad_()
    value = carms.expectation(lambda z: z[..., -1].mean(-1), logits, "unord", 4, generator(1))
    expected = logits[0, 0].softmax(-1)[-1].item()
    assert abs(value.mean().item() - expected) < 5 * value.std().item() / 300**0.5
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    slopes = gradient[..., -1].sum(-1)
    error = slopes.std().item() / 300**0.5
    assert abs(slopes.mean().item() - expected * (1 - expected)) < 5 * error
