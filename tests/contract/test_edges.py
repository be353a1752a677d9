"""Unusual logits: impossible and rare categories, many categories, odd shapes."""

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    PAIRS,
    Moments,
    RandomTable,
    dirichlet_probs,
    expectation,
    generator,
    logits_of,
    quadratic,
    replicate,
    results,
)

import carms

UNBIASED = [name for name in carms.available() if carms.make(name, samples=4).unbiased]


def test_impossible_categories_are_never_drawn_and_get_no_gradient(name, categories):
    logits = logits_of(500, 3, categories).detach()
    hidden = torch.zeros_like(logits, dtype=torch.bool)
    hidden[..., 1, 0] = True
    hidden[..., 2, -1] = True
    hidden[:, 2, 1:-1] = True
    logits = logits.masked_fill(hidden, -torch.inf).requires_grad_()
    value, gradient = results(name, quadratic, logits)
    assert value.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient[hidden] == 0).all()
    assert gradient.abs().sum() > 0
    if name != "exact":
        draw = carms.make(name, samples=4).sample(logits, generator(1))
        assert not draw.z[:, hidden].any()


@pytest.mark.parametrize("name", [n for n in UNBIASED if n not in BINARY_ONLY])
def test_gradients_beside_impossible_categories_are_unbiased(name):
    probs = torch.tensor([[0.3, 0.0, 0.5, 0.2], [0.0, 0.6, 0.0, 0.4]], dtype=torch.float64)
    f = RandomTable(2, 4)
    replicates = 100_000 if name != "exact" else 10
    _, gradients = replicate(
        carms.make(name, samples=2 if name in PAIRS else 3),
        lambda z, _: f(z),
        probs.log(),
        replicates,
    )
    assert gradients.agrees_with(f.expectation(probs)[1])


def test_a_single_possible_category_is_certain(name, categories):
    logits = torch.full((5, 2, categories), -torch.inf, dtype=torch.float64)
    logits[..., -1] = 1.0
    value, gradient = results(name, quadratic, logits.requires_grad_())
    torch.testing.assert_close(value, torch.full_like(value, (2.0 * categories) ** 2))
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_certain_variable_beside_a_random_one(name, categories, dtype):
    logits = torch.full((2000, 2, categories), -torch.inf, dtype=dtype)
    logits[:, 0, 0] = 0.0
    logits[:, 1] = 0.0
    _, gradient = results(name, quadratic, logits.requires_grad_())
    assert gradient.isfinite().all()
    # Both samples of a pair agree on the first variable, up to the rounding of what cancels.
    assert gradient[:, 0].abs().max() < 1e3 * torch.finfo(dtype).eps
    assert gradient[:, 1].abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [2, 8])
def test_tiny_probabilities(name, categories, dtype, samples):
    logits = torch.zeros(1000, 2, categories, dtype=dtype)
    logits[:, 0, 0] = -69.0  # a probability of 1e-30
    logits[:, 1, -1] = -69.0
    value, gradient = results(name, quadratic, logits.requires_grad_(), samples)
    assert value.isfinite().all()
    assert gradient.isfinite().all()
    if name not in ("arsm", "finite-difference"):  # the noise of these is as large for all logits
        assert gradient[:, 0, 0].abs().max() < 1e-20
        assert gradient[:, 1, -1].abs().max() < 1e-20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [5.0, 20.0, 100.0])
def test_probabilities_of_all_sizes(name, categories, dtype, scale):
    logits = (scale * logits_of(5_000, 3, categories, dtype=dtype)).detach().requires_grad_()
    for samples in (2, 6):
        value, gradient = results(name, quadratic, logits, samples)
        assert value.isfinite().all()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["carms-s", "loorf", "reinforce"])
@pytest.mark.parametrize("categories", [256, 257, 1000, 10_000])
def test_many_categories(name, categories):
    logits = logits_of(3, 2, categories, dtype=torch.float32)
    weight = torch.randn(categories, generator=generator(1))
    value, gradient = results(name, lambda i: weight[i].sum(-1), logits, one_hot=False)
    assert value.shape == (3,)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0
    dense, dense_gradient = results(name, lambda z: (z @ weight).sum(-1), logits)
    torch.testing.assert_close(dense, value, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dense_gradient, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["carms-s", "loorf", "reinforce"])
def test_gradient_of_many_categories_is_unbiased(name):
    probs = dirichlet_probs(1.0, 1, 300, seed=1)
    f = RandomTable(1, 300)
    # Grouped, so that each comparison sees enough draws.
    groups = torch.arange(300) % 6
    moments = Moments()
    source, estimator = generator(2), carms.make(name, samples=4)
    for _ in range(10):
        leaf = probs.log().expand(5000, 1, 300).clone().requires_grad_()
        value = estimator.expectation(f.of_indices, leaf, source, one_hot=False)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        moments.add(torch.zeros(5000, 6).double().index_add_(1, groups, gradient[:, 0]))
    truth = torch.zeros(6).double().index_add_(0, groups, f.expectation(probs)[1][0])
    assert moments.agrees_with(truth)


@pytest.mark.parametrize("samples", [8, 64])
def test_more_samples_than_categories(name, categories, samples):
    value, gradient = results(name, quadratic, logits_of(10, 2, categories), samples)
    assert value.isfinite().all()
    assert gradient.isfinite().all()


def test_no_batch_dimension(name, categories):
    logits = logits_of(3, categories)
    value, gradient = results(name, quadratic, logits)
    assert value.shape == ()
    with_batch = logits.detach().unsqueeze(0).requires_grad_()
    batch_value, batch_gradient = results(name, quadratic, with_batch)
    torch.testing.assert_close(value, batch_value[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, batch_gradient[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("batch", [(0,), (2, 0), (0, 3)])
def test_empty_batch(name, categories, batch):
    logits = logits_of(*batch, 2, categories)
    value, gradient = results(name, quadratic, logits)
    assert value.shape == batch
    assert gradient.shape == logits.shape


def test_non_contiguous_logits(name, categories):
    plain = logits_of(5, 3, categories)
    turned = plain.detach().permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    wide = plain.detach().repeat_interleave(2, -1)[..., ::2].requires_grad_()
    expected = results(name, quadratic, plain)
    for logits in (turned, wide):
        assert not logits.is_contiguous()
        found = results(name, quadratic, logits)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=0)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-12, atol=1e-14)


def test_expanded_logits(name, categories):
    leaf = logits_of(3, categories)
    value = expectation(quadratic, leaf.expand(5, 3, categories), name, 4, generator(1))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    copied = leaf.detach().expand(5, 3, categories).clone().requires_grad_()
    _, expected = results(name, quadratic, copied)
    torch.testing.assert_close(gradient, expected.sum(0), rtol=1e-12, atol=1e-13)
