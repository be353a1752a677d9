import math

import pytest
import torch
from listed import Rankings, normal

from carms.subsets.enumeration import every, log_probs
from carms.subsets.score import log_prob, outside, score

CASES = [(5, 1, 1.0), (5, 2, 1.0), (6, 3, 3.0), (6, 4, 6.0), (6, 5, 2.0), (5, 5, 1.0)]


@pytest.mark.parametrize(("items", "size", "scale"), CASES)
def test_rankings_by_their_definition(items, size, scale):
    listed = Rankings(normal(items, scale=scale), size)
    found = log_prob(listed.logits, listed.items, ordered=True).exp()
    torch.testing.assert_close(found, listed.probs, rtol=1e-11, atol=0)
    assert listed.probs.sum() == pytest.approx(1)
    found = score(listed.logits, listed.items, ordered=True)
    torch.testing.assert_close(found, listed.scores, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("items", "size", "scale"), CASES)
def test_subsets_are_sums_over_their_orders(items, size, scale):
    listed = Rankings(normal(items, scale=scale), size)
    probs = listed.over_subsets(listed.probs)
    found = log_prob(listed.logits, listed.items, ordered=False).exp()
    torch.testing.assert_close(found, probs[listed.subset], rtol=1e-8, atol=0)
    scores = listed.over_subsets(listed.probs.unsqueeze(-1) * listed.scores) / probs.unsqueeze(-1)
    found = score(listed.logits, listed.items, ordered=False)
    torch.testing.assert_close(found, scores[listed.subset], rtol=0, atol=1e-8)


def test_scores_are_derivatives():
    """Of many items too, where no list helps."""
    logits = normal(300, scale=2.0).requires_grad_()
    items = torch.stack([torch.randperm(300)[:40] for _ in range(3)])
    for ordered in (True, False):
        found = torch.stack(
            [
                torch.autograd.grad(value, logits, retain_graph=True)[0]
                for value in log_prob(logits, items, ordered)
            ]
        )
        torch.testing.assert_close(found, score(logits, items, ordered), rtol=0, atol=1e-9)


def test_items_with_equal_logits():
    """Every subset of 50 out of 100 has the same probability."""
    found = log_prob(torch.zeros(100).double(), torch.arange(50).unsqueeze(0), ordered=False)
    assert float(found) == pytest.approx(-math.log(math.comb(100, 50)), rel=1e-10)


def test_masks_and_extremes():
    logits = torch.tensor([0.0, 1.0, -torch.inf, 2.0]).double()
    everything = torch.tensor([[0, 1, 3], [0, 1, 2]])
    torch.testing.assert_close(
        log_prob(logits, everything, ordered=False).exp(), torch.tensor([1.0, 0.0]).double()
    )
    assert (score(logits, everything[:1], ordered=False) == 0).all()
    assert (outside(logits, everything[:1]) == 0).all()
    far = torch.tensor([0.0, -800.0, -1600.0]).double()
    pairs = torch.tensor([[0, 1], [0, 2]])
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.0, -1.0, 1.0]]).double()
    for ordered in (True, False):
        torch.testing.assert_close(score(far, pairs, ordered), expected)


def test_exchanges_have_the_same_rate_in_either_direction():
    """``P(S) G_i q_c`` of an exchange is that of its reverse: what carms-t rests on."""
    logits = normal(6, scale=2.0)
    here, there = torch.tensor([[0, 2, 3]]), torch.tensor([[0, 2, 5]])  # 3 for 5

    def rate(items, leaving, coming):
        chance = log_prob(logits, items, ordered=False).exp()
        inside = score(logits, items, ordered=False)[0, leaving]
        return float(chance * inside * outside(logits, items)[0, coming])

    assert rate(here, 3, 5) == pytest.approx(rate(there, 5, 3), rel=1e-9)


@pytest.mark.parametrize(("items", "size"), [(5, 1), (6, 3), (9, 4), (6, 5), (4, 4)])
def test_the_list_of_all_subsets(items, size):
    """Two ways to the same probabilities, in a batch with a mask."""
    logits = normal(2, items, scale=3.0)
    logits[1, 0] = -torch.inf if size < items else 0
    rows = every(items, size, False, logits.device)
    found = log_probs(logits, size, ordered=False)
    integral = log_prob(logits, rows.unsqueeze(1).expand(-1, 2, -1), ordered=False)
    torch.testing.assert_close(found, integral, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2).double())


def test_the_list_where_just_enough_are_allowed():
    logits = torch.tensor([0.0, -torch.inf, 1.0, -torch.inf]).double()
    found = log_probs(logits, 2, ordered=False).exp()
    assert found.tolist() == pytest.approx([0, 1, 0, 0, 0, 0])
