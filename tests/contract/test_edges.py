"""Unusual inputs, and the ways of running torch other than plain autograd."""

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    PAIRS,
    Moments,
    RandomTable,
    differentiates,
    dirichlet_probs,
    expectation,
    generator,
    logits_of,
    replicate,
    takes_slopes,
)

import carms
from carms.core.memo import constant

NAMES = carms.available()
SAMPLING = [name for name in NAMES if name != "exact"]
UNBIASED = [name for name in NAMES if carms.make(name, samples=4).unbiased]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def categories(name):
    return 2 if name in BINARY_ONLY else 4


def quadratic(z):
    """Any number of variables and categories."""
    weight = torch.arange(z.shape[-1], dtype=z.dtype) + 1
    return (z * weight).sum((-2, -1)).square()


def results(name, f, logits, samples=4, seed=1, **options):
    value = expectation(f, logits, name, samples, generator(seed), **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


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


def test_no_grad(name, categories):
    logits = logits_of(5, 2, categories)
    expected, _ = results(name, quadratic, logits)
    with torch.no_grad():
        value = expectation(quadratic, logits, name, 4, generator(1))
    assert not value.requires_grad
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)


def test_logits_without_gradient(name, categories):
    logits = logits_of(5, 2, categories).detach()
    assert not expectation(quadratic, logits, name, 4).requires_grad


def test_inference_mode_and_afterwards(name, categories):
    # Numbers that no other test uses: what is remembered of them must be usable with autograd.
    samples, more = 14, categories if name in BINARY_ONLY else 11
    with torch.inference_mode():
        value = expectation(quadratic, torch.zeros(5, 2, more), name, samples)
        assert value.isfinite().all()
    value, gradient = results(name, quadratic, logits_of(5, 2, more), samples)
    assert gradient.isfinite().all()
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    value = expectation(
        lambda z: weight * quadratic(z), logits_of(5, 2, more), name, samples, generator(1)
    )
    value.sum().backward()
    assert weight.grad.isfinite()


def test_f_is_never_differentiated_where_it_cannot_be(name, categories):
    # The logarithm of zero at the impossible category.
    weight = torch.arange(1.0, categories + 1).index_fill(0, torch.tensor(1), 0).requires_grad_()
    logits = torch.zeros(3, 1, categories).index_fill(-1, torch.tensor(1), -torch.inf)

    def f(z):
        return (z * weight).sum((-2, -1)).log()

    value = expectation(f, logits.requires_grad_(), name, 4, generator())
    value.sum().backward()
    assert weight.grad.isfinite().all()
    assert logits.grad.isfinite().all()


def test_vmap(name, categories):
    if takes_slopes(name):
        pytest.skip("takes derivatives itself")
    probs = dirichlet_probs(1.0, 2, categories, seed=1, floor=0.05)
    f = RandomTable(2, categories)
    estimator = carms.make(name, samples=4)
    # A lookup by index is not batched; a product with all configurations is.
    weight = f.values.flatten()

    def lookup(z):
        return torch.einsum("...i,...j->...ij", z[..., 0, :], z[..., 1, :]).flatten(-2) @ weight

    rows = probs.log().expand(5000, 2, categories)
    gradient = torch.func.vmap(
        torch.func.grad(lambda logits: estimator.expectation(lookup, logits)),
        randomness="different",
    )(rows)
    assert gradient.shape == rows.shape
    assert gradient.isfinite().all()
    if name != "exact":
        assert len(gradient.unique(dim=0)) > 1
    if estimator.unbiased:
        moments = Moments()
        moments.add(gradient)
        assert moments.agrees_with(f.expectation(probs)[1])


def test_vmap_of_values(name, categories):
    if takes_slopes(name):
        pytest.skip("takes derivatives itself")
    logits = torch.full((6, 2, categories), -torch.inf)
    logits[..., 1] = 0
    values = torch.func.vmap(
        lambda row: expectation(quadratic, row, name, 4), randomness="different"
    )(logits)
    torch.testing.assert_close(values, torch.full((6,), 16.0))


@pytest.fixture
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check_compiled(name, backend):
    categories = 2 if name in BINARY_ONLY else 3
    estimator = carms.make(name, samples=4)
    rows = 200

    def loss(logits, weight):
        values = estimator.expectation(lambda z: (z * weight).sum((-2, -1)).square(), logits)
        return values.sum()

    step = torch.compile(loss, fullgraph=True, backend=backend)

    # One category is certain: value and gradients are known.
    logits = torch.full((rows, 2, categories), -torch.inf, dtype=torch.float64)
    logits[..., 1] = 0.0
    logits.requires_grad_()
    weight = logits_of(2, categories, seed=5)
    total = step(logits, weight)
    total.backward()
    (expected,) = torch.autograd.grad(rows * weight[:, 1].sum().square(), weight)
    torch.testing.assert_close(weight.grad, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), rtol=0, atol=1e-9)

    # And a random one: the gradient is right on average, and fresh at every call.
    probs = dirichlet_probs(1.0, 2, categories, seed=4, floor=0.05)
    moments, seen = Moments(), []
    for _ in range(100):
        leaf = probs.log().expand(rows, 2, categories).clone().requires_grad_()
        step(leaf, weight.detach()).backward()
        assert leaf.grad.shape == leaf.shape
        assert leaf.grad.isfinite().all()
        moments.add(leaf.grad)
        seen.append(leaf.grad)
    if name != "exact":
        assert not torch.equal(seen[0], seen[1])
    if estimator.unbiased:
        f = RandomTable(2, categories)
        pairs = weight.detach()[0].unsqueeze(-1) + weight.detach()[1]
        f.values = pairs.square()
        assert moments.agrees_with(f.expectation(probs)[1])


@pytest.mark.usefixtures("_fresh_compiler")
# From torch's own code.
@pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'>:DeprecationWarning")
def test_compiled_without_graph_breaks(name):
    if differentiates(name):
        pytest.skip("takes derivatives itself")
    check_compiled(name, "aot_eager")


@pytest.mark.usefixtures("_fresh_compiler")
# From torch's own code generator.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_by_the_default_backend():
    check_compiled("carms-s", "inductor")


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("name", ["loorf", "carms-s", "carms-i", "unord"])
def test_compiled_for_batches_of_several_sizes(name):
    estimator = carms.make(name, samples=4)
    step = torch.compile(lambda logits: estimator.expectation(quadratic, logits), backend="eager")
    for rows in (3, 7, 11):
        assert step(logits_of(rows, 2, 3)).shape == (rows,)


def test_what_is_remembered_belongs_to_no_transform():
    @constant
    def numbers(count):
        return torch.arange(count)

    torch.func.grad(lambda x: (numbers(4) * x).sum())(torch.ones(4))
    assert repr(numbers(4)) == "tensor([0, 1, 2, 3])"
