"""Ways of running torch other than plain autograd: no gradient, transforms, the compiler."""

from functools import partial

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    Moments,
    RandomTable,
    differentiates,
    dirichlet_probs,
    expectation,
    generator,
    logits_of,
    quadratic,
    results,
    takes_slopes,
)
from torch.utils.checkpoint import checkpoint

import carms
from carms.core import memo
from carms.core.memo import constant
from carms.core.random import uniform

RUNNING_MEAN = {"baseline": "running-mean"}


def test_no_grad(name, categories):
    logits = logits_of(5, 2, categories)
    expected, _ = results(name, quadratic, logits)
    with torch.no_grad():
        value = expectation(quadratic, logits, name, 4, generator(1))
    assert not value.requires_grad
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)


def test_samples_without_their_graph_are_refused_where_it_is_needed(name, categories):
    made = carms.make(name, samples=4)
    logits = logits_of(5, 2, categories)
    with torch.no_grad():
        draw = made.sample(logits, generator(1))
    values = quadratic(draw.z)
    # What `relax` differentiates is not what `f` sees.
    if draw.differentiable is None and name != "relax":
        assert made.surrogate(draw, values).requires_grad
    else:
        with pytest.raises(ValueError, match="drawn without their graph"):
            made.surrogate(draw, values)
        with torch.no_grad():
            made.surrogate(draw, values)


def test_samples_of_inference_mode_are_refused_where_a_gradient_is_needed(name, categories):
    made = carms.make(name, samples=4)
    logits = logits_of(5, 2, categories)
    with torch.inference_mode():
        draw = made.sample(logits, generator(1))
        values = quadratic(draw.z)
    with pytest.raises(ValueError, match=r"drawn under torch.inference_mode\(\): call sample"):
        made.surrogate(draw, values)


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


@pytest.mark.parametrize("calls", [1, 2])
def test_checkpointing_changes_nothing(name, categories, calls):
    options = {"baseline": "running-mean"} if name == "reinforce" else {}

    def train(again):
        torch.manual_seed(0)
        estimator, found = carms.make(name, samples=4, **options), []
        for _ in range(20):  # calls of one example, so that what it remembers counts
            each = [logits_of(2, categories, seed=seed) for seed in range(calls)]
            call = partial(estimator.expectation, quadratic)
            sum(again(call, logits) for logits in each).backward()
            found += [logits.grad for logits in each]
        return torch.stack(found), estimator.state_dict()

    plain, memory = train(lambda call, logits: call(logits))
    computed_again, same = train(lambda *call: checkpoint(*call, use_reentrant=False))
    assert torch.equal(plain, computed_again)
    assert all(torch.equal(memory[key], same[key]) for key in memory)


def test_carms_t_explains_why_it_cannot_be_mapped():
    logits = logits_of(5, 2, 3)

    def estimate(own):
        return expectation(quadratic, own, "carms-t", 4)

    def batched_gradient(own):
        (found,) = torch.autograd.grad(
            estimate(own), own, torch.eye(5, dtype=own.dtype), is_grads_batched=True
        )
        return found

    for call in (torch.func.vmap(estimate, randomness="different"), batched_gradient):
        with pytest.raises(RuntimeError, match="make a batch dimension of what is mapped over"):
            call(logits)


def test_running_out_of_memory_is_not_explained_away(monkeypatch):
    def clone(tensor):
        raise torch.OutOfMemoryError("no memory left")

    logits = logits_of(5, 2, 3)
    monkeypatch.setattr(torch.Tensor, "clone", clone)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        expectation(quadratic, logits, "carms-t", 4)


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

    step = torch.compile(loss, fullgraph=not differentiates(name), backend=backend)

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
# From torch's own code, the second at a graph break.
@pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'>:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_without_graph_breaks_unless_it_differentiates_f(name):
    check_compiled(name, "aot_eager")


@pytest.mark.usefixtures("_fresh_compiler")
# From torch's own code generator; the second in torch 2.6.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Skipping serialization of:UserWarning")
def test_compiled_by_the_default_backend():
    check_compiled("carms-s", "inductor")


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Skipping serialization of:UserWarning")
def test_compiled_uniforms_have_all_digits():
    """With 24 bits, a category of probability 5e-8 at the end would never be drawn."""
    drawn = torch.compile(lambda: uniform((10_000,), dtype=torch.float64))()
    assert ((drawn > 0) & (drawn < 1)).all()
    assert (drawn != drawn.float()).float().mean() > 0.99
    assert abs(drawn.mean() - 0.5) < 5 / (12 * 10_000) ** 0.5


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("name", ["loorf", "carms-s", "carms-i", "unord"])
def test_compiled_for_batches_of_several_sizes(name):
    estimator = carms.make(name, samples=4)
    step = torch.compile(lambda logits: estimator.expectation(quadratic, logits), backend="eager")
    for rows in (3, 7, 11):
        assert step(logits_of(rows, 2, 3)).shape == (rows,)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'>:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [("carms-t", {}), ("carms-t", {"samples": 2}), ("ridge", {}), ("reinforce", RUNNING_MEAN)],
)
def test_what_is_kept_learns_when_compiled(name, options):
    """From the calls of a loss of several, too, before whose backward pass all have been made."""
    plain, compiled = (carms.make(name, **options) for _ in "ab")
    step = torch.compile(
        lambda logits: compiled.expectation(quadratic, logits), backend="aot_eager", fullgraph=True
    )
    for call in (lambda logits: plain.expectation(quadratic, logits), step):
        for _ in range(20):
            logits = logits_of(2, 3)
            (call(logits) + call(logits)).backward()
    count = [list(made.buffers())[-1] for made in (plain, compiled)]
    assert count[0] > 0
    assert torch.equal(*count)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'>:DeprecationWarning")
def test_what_was_learned_is_used_when_compiled():
    """Without it, slopes that mislead would be trusted."""
    torch.manual_seed(0)
    start, weight = torch.randn(1, 4), torch.tensor([0.0, 1.0, -1.0, 2.0])

    def f(z):
        return (z @ weight).sum(-1) + 40 * z[..., 0, 0] * (1 - z[..., 0, 0])

    def gradients(call, count):
        rows = []
        for _ in range(count):
            leaf = start.clone().requires_grad_()
            rows.append(torch.autograd.grad(call(leaf), leaf)[0])
        return torch.stack(rows)

    estimator = carms.make("carms-t", samples=8)

    def call(logits):
        return estimator.expectation(f, logits)

    blind = gradients(call, 40)
    step = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert gradients(step, 100).var(0).sum() < blind[:16].var(0).sum() / 20


@pytest.mark.usefixtures("_fresh_compiler")
def test_one_of_two_steps_may_be_compiled():
    estimator, logits = carms.make("loorf", samples=4), logits_of(3, 2, 3)
    with torch.no_grad():
        logits.add_(1)  # as an optimiser does
    sample, surrogate = (
        torch.compile(call, backend="eager") for call in (estimator.sample, estimator.surrogate)
    )
    for first, second in ((sample, estimator.surrogate), (estimator.sample, surrogate)):
        draw = first(logits)
        assert second(draw, quadratic(draw.z)).shape == (3,)


def test_what_is_remembered_belongs_to_no_transform():
    @constant
    def numbers(count):
        return torch.arange(count)

    torch.func.grad(lambda x: (numbers(4) * x).sum())(torch.ones(4))
    assert repr(numbers(4)) == "tensor([0, 1, 2, 3])"


def test_what_is_remembered_has_a_limit(monkeypatch):
    monkeypatch.setattr(memo, "BYTES", 1000)
    made = []

    @constant
    def numbers(count):
        made.append(count)
        return (torch.arange(count),)

    for count in (50, 60, 50, 70, 50, 60, 500, 500):  # eight bytes each
        assert len(numbers(count)[0]) == count
    assert made == [50, 60, 70, 60, 500]
