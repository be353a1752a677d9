"""Half precision, autocast, and values more precise than the logits."""

import pytest
import torch
from helpers import RandomTable, logits_of, quadratic, results


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
