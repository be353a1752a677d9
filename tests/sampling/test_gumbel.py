"""The exponentials behind Gumbel noise."""

import torch
from helpers import generator

from carms.sampling.gumbel import exponentials

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
