import itertools

import pytest
import torch
from helpers import dirichlet_probs, generator

from carms.sequences.coder import Coder


def small(points, grid):
    """A coder with few points, so that all of them can be listed."""
    coder = Coder(points.double() / grid)
    coder._grid, coder._point = float(grid), points.double()
    coder._span = torch.full_like(coder._point, grid)
    return coder


@pytest.mark.parametrize("seed", range(5))
def test_every_point_and_every_fresh_bit_listed(seed):
    """Counting them all, each sequence comes up exactly as often as its shares say."""
    grid, steps, vocabulary = 32, 3, 3
    every = torch.tensor(list(itertools.product(range(grid), repeat=steps)))
    coder = small(every[:, 0], grid)
    fresh = every.double() / grid
    probs = dirichlet_probs(1.0, vocabulary, vocabulary**steps, vocabulary, seed=seed)
    if seed == 0:
        probs[0, 0] = torch.tensor([0.0, 1.0, 0.0])
    prefix, chance = torch.zeros(len(every), dtype=torch.long), torch.ones(len(every)).double()
    for t in range(steps):
        # After the last step no fresh bits are needed.
        last = fresh[:, min(t + 1, steps - 1)]
        choice = coder.choose(probs[t, prefix], last)
        prefix = prefix * vocabulary + choice.token
        chance *= (choice.upper - choice.lower) / choice.span
    for sequence in prefix.unique():
        found = prefix == sequence
        assert ((chance[found] * len(every) - found.sum()).abs() < 1e-9).all()


def test_pieces_cover_the_span():
    """Points all over the span find adjoining pieces from 0 to the span, each about its share."""
    probs = dirichlet_probs(0.3, 50, seed=1)
    points = torch.rand(100_000, generator=generator(), dtype=torch.float64)
    choice = Coder(points).choose(probs.expand(len(points), 50), torch.zeros_like(points))
    order = choice.token.argsort()
    lower, upper, span, token = (field[order] for field in (*choice[1:], choice.token))
    first = torch.cat((torch.tensor([True]), token.diff() > 0))
    share = (upper - lower)[first] / span[first]
    assert lower[0] == 0
    assert upper[-1] == span[-1]
    torch.testing.assert_close(share, probs[token[first]], rtol=0, atol=1e-14)


def test_never_a_token_of_probability_zero():
    probs = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]])
    points = torch.tensor([1e-300, 0.29999, 0.3, 0.30001, 1 - 2**-53], dtype=torch.float64)
    choice = Coder(points).choose(probs.expand(5, 5), torch.zeros(5).double())
    assert choice.token.tolist() == [1, 1, 3, 3, 3] or choice.token.tolist() == [1, 1, 1, 3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bits_never_run_out(dtype):
    """After hundreds of bits a fair coin is still a fair coin, and has no memory."""
    points = torch.rand(20_000, generator=generator(), dtype=dtype)
    coder, source = Coder(points), generator(1)
    odds = torch.tensor([0.001, 0.499, 0.5]).expand(len(points), 3)
    tokens = []
    for _ in range(300):
        fresh = torch.rand(len(points), generator=source, dtype=dtype)
        tokens.append(coder.choose(odds, fresh).token)
    heads = (torch.stack(tokens) == 2).double()
    z = (heads.mean(1) - 0.5) / (0.25 / len(points)) ** 0.5
    assert z.abs().max() < 5
    follows = (heads[1:] * heads[:-1]).mean(1)
    assert ((follows - 0.25) / (0.1875 / len(points)) ** 0.5).abs().max() < 5.5


def test_a_certain_token_spends_nothing():
    points = torch.rand(100, generator=generator(), dtype=torch.float64)
    patient, hasty = Coder(points), Coder(points)
    certain = torch.tensor([[0.0, 1.0]]).expand(100, 2)
    for _ in range(1000):
        patient.choose(certain, torch.rand(100, dtype=torch.float64))
    fair, nothing = torch.ones(100, 7), torch.zeros(100).double()
    assert torch.equal(patient.choose(fair, nothing).token, hasty.choose(fair, nothing).token)
