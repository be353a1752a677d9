"""Gumbel noise, and samples that are relaxed."""

import torch
from helpers import dirichlet_probs, generator, logits_of

from carms.core.variables import Variables
from carms.estimators.rebar import RelaxedSample
from carms.sampling.gumbel import exponentials, perturbed, perturbed_given


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
    seen = RelaxedSample.draw(Variables(logits), 3, torch.tensor(-0.4), generator())
    torch.testing.assert_close(seen.soft, seen.soft_given, rtol=1e-9, atol=1e-12)
    assert torch.equal(seen.soft.argmax(-1), seen.hard.argmax(-1))
    weight = torch.arange(4.0)
    slopes = [
        torch.autograd.grad((weight * soft).sum(), seen.logits, retain_graph=True)[0]
        for soft in (seen.soft, seen.soft_given)
    ]
    assert (slopes[0] - slopes[1]).abs().max() > 0.1
