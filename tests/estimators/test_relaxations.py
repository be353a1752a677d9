"""Samples that are relaxed."""

import torch
from helpers import generator, logits_of

from carms.core.variables import Variables
from carms.estimators.families.relaxed_sample import RelaxedSample


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
