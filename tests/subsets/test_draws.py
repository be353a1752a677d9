"""Draws follow the distribution that they are said to follow, alone and in pairs."""

import pytest
import torch
from helpers import assert_frequencies, generator
from listed import Rankings, normal

import carms.subsets.carms as coupled
from carms import subsets
from carms.sequences import pair_ratio


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", ["loorf", "carms", "unord"])
def test_first_draw_is_plackett_luce(name, ordered):
    listed = Rankings(normal(4, seed=3), 2)
    made = subsets.make(name, 2, samples=3, ordered=ordered)
    groups = 50_000
    draw = made.sample(listed.logits.expand(groups, 4), generator())
    items = draw.items[0]
    if ordered:
        counts = torch.bincount(listed.index(items), minlength=len(listed.items))
        assert_frequencies(counts / groups, listed.probs, groups)
    else:
        number = listed.subset[listed.index(items)]
        counts = torch.bincount(number, minlength=6)
        assert_frequencies(counts / groups, listed.over_subsets(listed.probs), groups)


@pytest.mark.parametrize("name", ["loorf", "carms"])
def test_inclusion_probabilities(name):
    listed = Rankings(normal(6, seed=4), 3)
    groups = 20_000
    draw = subsets.make(name, 3, samples=4).sample(listed.logits.expand(groups, 6), generator())
    assert torch.equal(draw.z.sum(-1), torch.full((4, groups), 3.0).double())
    for n in range(4):
        assert_frequencies(draw.z[n].mean(0), listed.probs @ listed.z, groups)


@pytest.mark.parametrize(("picks", "samples"), [(1, 2), (1, 5), (2, 5), (3, 5)])
def test_pairs_against_a_million_draws(monkeypatch, picks, samples):
    """How often two rankings come together is what their ratio says; equal ones, too, where only
    their first picks are coupled.
    """
    monkeypatch.setattr(coupled, "COUPLED", picks)
    listed = Rankings(normal(4, seed=5), 3)
    groups = 1_000_000 // samples
    made = subsets.make("carms", 3, samples=samples, ordered=True, epsilon=0.1)
    draw = made.sample(listed.logits.expand(groups, 4), generator())
    first, second = listed.index(draw.items[0]), listed.index(draw.items[1])
    ratio = pair_ratio(draw.memory.rollouts)[:, 0, 1]
    table = torch.zeros(len(listed.items), len(listed.items)).double()
    table[first, second] = listed.probs[first] * listed.probs[second] / ratio
    counts = torch.zeros_like(table).view(-1)
    counts += torch.bincount(first * len(listed.items) + second, minlength=counts.numel())
    assert (counts > 0).float().mean() > 0.9
    frequency = (counts / groups).view_as(table)
    tells = frequency > 0
    if picks == 3:
        tells &= ~torch.eye(len(table), dtype=torch.bool)  # of equal ones the ratio says nothing
    assert_frequencies(frequency[tells], table[tells], groups)


@pytest.mark.parametrize("name", ["loorf", "carms"])
def test_large_logits_do_not_swallow_the_noise(name):
    groups = 20_000
    made = subsets.make(name, 4, samples=2, ordered=True)
    items = made.sample(torch.full((groups, 6), 1e7), generator()).items[0]
    for picked in items.unbind(-1):
        counts = torch.bincount(picked, minlength=6)
        assert_frequencies(counts / groups, torch.full((6,), 1 / 6).double(), groups)
