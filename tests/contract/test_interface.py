"""What a user sees of objects and functions in an interpreter."""

import inspect

import pytest
import torch
from helpers import curved, generator

import carms


def test_an_estimator_is_called_like_any_module():
    logits, estimator, seen = torch.zeros(3, 2, 2), carms.make("carms-s", samples=4), []
    estimator.register_forward_hook(lambda *_: seen.append(1))
    called = estimator(curved, logits, generator(1), one_hot=True)
    assert torch.equal(called, estimator.expectation(curved, logits, generator(1)))
    assert seen == [1]


def test_a_draw_shows_its_maker_and_its_shape():
    draw = carms.make("loorf", samples=4).sample(torch.zeros(2, 3, 5))
    assert repr(draw) == "Draw(loorf(samples=4), indices=[4, 2, 3])"


def test_rollouts_show_their_sizes():
    def step(tokens, _):
        return torch.zeros(len(tokens), 5), None

    group = carms.sequences.rollouts(step, torch.zeros(3, 2).long(), samples=8, length=6)
    assert repr(group) == "Rollouts(prompts=3, samples=8, length=6, copula='circular')"


@pytest.mark.parametrize("function", [carms.expectation, carms.compare, carms.make, carms.Paths])
def test_signatures_do_not_spell_out_all_names(function):
    shown = str(inspect.signature(function))
    assert "reinforce" not in shown
    assert len(shown) < 400


@pytest.mark.parametrize("name", [name for name in carms.available() if name != "exact"])
def test_the_default_number_of_samples_is_that_of_expectation(name):
    assert carms.make(name).samples == 8


def test_draws_can_be_compared():
    estimator = carms.make("loorf", samples=4)
    first, second = (estimator.sample(torch.zeros(2, 3)) for _ in range(2))
    assert first == first
    assert first != second
