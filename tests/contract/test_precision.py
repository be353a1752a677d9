"""Half precision, autocast, and values more precise than the logits."""

import pytest
import torch
from helpers import RandomTable, logits_of, quadratic, results

import carms


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(name, categories, dtype):
    f = RandomTable(2, categories)
    half = logits_of(200, 2, categories, dtype=torch.float32).to(dtype).detach().requires_grad_()
    single = half.detach().float().requires_grad_()

    def values(z):
        assert z.dtype in (dtype, torch.float32)
        return f(z).float()

    value, gradient = results(name, values, half)
    expected_value, expected_gradient = results(name, values, single)
    assert gradient.dtype == dtype
    tolerance = 8 * torch.finfo(dtype).eps
    scale = expected_gradient.abs().max().item()
    torch.testing.assert_close(value.float(), expected_value, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        gradient.float(), expected_gradient, rtol=tolerance, atol=tolerance * scale
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_throughout(name, categories, dtype):
    logits = logits_of(50, 2, categories, dtype=torch.float32).to(dtype).detach().requires_grad_()
    value, gradient = results(name, quadratic, logits)
    assert value.dtype == dtype
    assert gradient.dtype == dtype
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("estimator", ["exact", "indecater", "local-expectation"])
def test_probabilities_of_many_categories_are_not_rounded_to_half_precision(estimator):
    made = carms.make(estimator, samples=1)
    value = made.expectation(
        lambda indices: (3 + 0 * indices.sum(-1)).half(), torch.zeros(1, 40_000), one_hot=False
    )
    assert value.item() == 3


def test_autocast_leaves_samples_and_gradients_alone(name, categories):
    logits = logits_of(50, 2, categories, dtype=torch.float32)
    expected = results(name, quadratic, logits)
    with torch.autocast("cpu", torch.bfloat16):
        found = results(name, quadratic, logits)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-4)


def test_f_may_be_more_precise_than_the_logits(name, categories):
    logits = logits_of(5, 2, categories, dtype=torch.float32)
    value, gradient = results(name, lambda z: quadratic(z).double(), logits)
    assert value.dtype == torch.float64
    assert gradient.dtype == torch.float32


def test_values_near_the_end_of_half_precision(name, categories):
    logits = logits_of(20, 2, categories, dtype=torch.float32)
    weight = torch.linspace(-29_000, 29_000, categories)

    def values(z, dtype):
        return (z * weight).sum((-2, -1)).to(dtype)

    half, single = (
        results(name, lambda z, d=d: values(z, d), logits)[1]
        for d in (torch.float16, torch.float32)
    )
    torch.testing.assert_close(half, single, rtol=0.01, atol=0.01 * single.abs().max().item())


UNBIASED_BY_SLOPES = ["carms-t", "double-cv", "muprop"]


@pytest.mark.parametrize("estimator", UNBIASED_BY_SLOPES)
def test_slopes_with_a_large_common_part_in_single_precision(estimator):
    # For a linear f these have hardly any variance, so that rounding would show.
    row = torch.tensor([0.0, -7.0])
    logits = row.expand(50_000, 1, 2).clone().requires_grad_()
    slopes = torch.tensor([1000.0, 1001.0])
    made = carms.make(estimator, samples=4)
    made.expectation(lambda z: (z * slopes).sum((-2, -1)), logits).sum().backward()
    first, second = row.double().softmax(-1)
    expected = first * second * torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(logits.grad.double().mean(0), expected, rtol=1e-3, atol=0)


def test_nan_slopes_of_impossible_categories(name, categories):
    row = torch.linspace(0, 1, categories)
    row[1] = -torch.inf
    logits = row.expand(20, 2, categories).clone().requires_grad_()
    log_probs = row.log_softmax(-1)

    def f(z):  # its slope at the impossible category is 0 times minus infinity
        return torch.where(z > 0, z * log_probs, 0.0).sum((-2, -1))

    if name == "rebar":
        with pytest.raises(ValueError, match="needs finite slopes"):
            results(name, f, logits)
        return
    value, gradient = results(name, f, logits)
    assert value.isfinite().all()
    assert gradient.isfinite().all()
    assert not gradient[..., 1].any()
