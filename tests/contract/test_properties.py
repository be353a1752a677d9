"""What holds for any shape, precision and estimator."""

import pytest
import torch
from helpers import BINARY_ONLY, NOT_TANGENT, PAIRS, expectation, generator, named
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import carms
from carms.copulas.names import COPULAS
from carms.couplings import Coupling, GumbelMax, InverseCDF

DTYPES = [torch.float32, torch.float64, torch.bfloat16]
few = settings(max_examples=50, deadline=None, derandomize=True)
# Of each estimator: fifty of all together would leave most of them out.
each = settings(max_examples=8, deadline=None, derandomize=True)


@st.composite
def problems(draw, name):
    batch = draw(st.lists(st.integers(0, 3), max_size=3))
    variables = draw(st.integers(1, 3))
    categories = 2 if name in BINARY_ONLY else draw(st.integers(2, 6))
    samples = draw(st.integers(2, 6))
    if name in PAIRS:
        samples += samples % 2
    dtype = draw(st.sampled_from(DTYPES))
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))
    source = generator(draw(st.integers(0, 10_000)))
    logits = scale * torch.randn((*batch, variables, categories), generator=source)
    return samples, logits.to(dtype).requires_grad_(), source


@pytest.mark.parametrize("name", carms.available())
@given(data=st.data())
@each
def test_shapes_dtypes_and_finite_gradients(name, data):
    samples, logits, source = data.draw(problems(name))
    weight = torch.randn(logits.shape[-2:], generator=source).to(logits.dtype)
    value = expectation(lambda z: (z * weight).sum((-2, -1)).tanh(), logits, name, samples, source)
    assert value.shape == logits.shape[:-2]
    assert value.dtype == logits.dtype
    assert value.isfinite().all()
    assert (value.abs() <= 1.05).all()
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.shape == logits.shape
    assert gradient.dtype == logits.dtype
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", [n for n in carms.available() if n not in NOT_TANGENT])
@given(data=st.data())
@each
def test_gradients_add_up_to_zero_over_categories(name, data):
    # Adding a constant to all logits of a variable changes nothing.
    samples, logits, source = data.draw(problems(name))
    assume(logits.numel())
    weight = torch.randn(logits.shape[-2:], generator=source).to(logits.dtype)
    value = expectation(lambda z: (z * weight).sum((-2, -1)).sin(), logits, name, samples, source)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    wide = gradient.double()
    size = 1 + wide.abs().amax()
    assert wide.sum(-1).abs().max() <= 20 * torch.finfo(logits.dtype).eps * size


# The gradient of a constant vanishes only on average for the others, but for `rebar`, whose control
# variate has the same constant.
@pytest.mark.parametrize("name", [*named(centred=True), "rebar"])
@given(data=st.data(), constant=st.floats(-3, 3))
@each
def test_constant_f_has_its_value_and_no_gradient(name, data, constant):
    samples, logits, source = data.draw(problems(name))
    value = expectation(lambda z: 0 * z.sum((-2, -1)) + constant, logits, name, samples, source)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    tolerance = 20 * torch.finfo(logits.dtype).eps * (1 + abs(constant))
    torch.testing.assert_close(value, torch.full_like(value, constant), rtol=0, atol=tolerance)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=tolerance)


@st.composite
def couplings(draw):
    samples = draw(st.integers(2, 6))
    copula = COPULAS[draw(st.sampled_from(list(COPULAS)))](samples)
    epsilon = draw(st.sampled_from([0.0, 0.2]))
    if draw(st.booleans()):
        return InverseCDF(copula, draw(st.sampled_from(["auto", "all"])), epsilon)
    return GumbelMax(COPULAS["dirichlet"](samples), epsilon)


@given(couplings(), st.integers(2, 6), st.lists(st.integers(0, 3), max_size=2), st.integers(0, 99))
@few
def test_tables_are_distributions(coupling: Coupling, categories, batch, seed):
    source = generator(seed)
    logits = 2 * torch.randn((*batch, categories), generator=source, dtype=torch.float64)
    probs = logits.softmax(-1)
    table = coupling.pmf(probs)
    assert table.shape == (*batch, categories, categories)
    # Where quadrature leaves less than nothing of a margin, that becomes 0.
    tolerance = 1e-8 if isinstance(coupling, GumbelMax) else 1e-12
    torch.testing.assert_close(table.sum(-1), probs, rtol=0, atol=tolerance)
    torch.testing.assert_close(table, table.mT, rtol=0, atol=1e-14)
    assert (table >= 0).all()
    indices, ratio = coupling.draw(probs, source)
    assert indices.shape == (coupling.samples, *batch)
    assert ((indices >= 0) & (indices < categories)).all()
    assert ratio.shape == (coupling.samples * (coupling.samples - 1) // 2, *batch)
    assert ratio.isfinite().all()
    assert (ratio > 0).all()
