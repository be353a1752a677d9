"""The default device of torch, which need not be that of the logits."""

import torch
from helpers import generator, logits_of

import carms


def test_the_default_device_does_not_matter(name, categories):
    def f(z):  # makes no tensor of its own
        return (z[..., 0] - 2 * z[..., -1]).sum(-1).square()

    made = carms.make(name, samples=4).eval()
    logits = logits_of(5, 2, categories)
    expected = made.expectation(f, logits, generator(1))
    source = generator(1)
    with torch.device("meta"):
        value = made.expectation(f, logits, source)
        (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert torch.equal(value, expected)
    assert torch.equal(gradient, torch.autograd.grad(expected.sum(), logits)[0])
