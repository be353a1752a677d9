"""Gumbel noise, and the exponentials behind it."""

import torch
from helpers import dirichlet_probs, generator

from carms.sampling.gumbel import exponentials, perturbed, perturbed_given

GRID = 2.0**-24


def test_small_exponentials_lie_between_the_uniforms_of_single_precision():
    times = exponentials((4_000_000,), torch.zeros(()), generator())
    assert times.dtype == torch.float32
    small = times[times < 1e-5].double() / GRID
    assert len(small) > 20
    # A rare category wins by an exponential as small as its probability.
    assert ((small - small.round()).abs() > 0.1).double().mean() > 0.5


def test_exponentials_have_their_mean_and_variance():
    for precise in (True, False):
        times = exponentials((1_000_000,), torch.zeros(()), generator(), precise=precise)
        assert times.min() > 0
        assert abs(times.mean() - 1) < 0.005
        assert abs(times.var() - 1) < 0.02


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
