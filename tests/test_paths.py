"""Paths through several layers: how samples, values and gradients behave, and what is refused."""

import pytest
import torch
from helpers import generator
from torch.distributions import Bernoulli, Categorical

import carms


def f(z):
    return (z * torch.arange(z.shape[-1])).sum((-2, -1)).square()


@pytest.mark.parametrize("estimator", ["carms-g", "carms-i", "carms-s", "carts", "loorf"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_one_layer_is_expectation(estimator, dtype):
    logits = torch.randn(7, 2, 3, generator=generator(1)).to(dtype).requires_grad_()
    paths = carms.Paths(4, estimator, generator(2))
    z = paths.sample(logits)
    assert z.dtype == dtype
    found = paths.expectation(f(z))
    expected = carms.expectation(f, logits, estimator, 4, generator(2))
    assert torch.equal(found, expected)
    gradients = [torch.autograd.grad(each.sum(), logits)[0] for each in (found, expected)]
    assert torch.equal(*gradients)
    assert gradients[0].abs().sum() > 0


def two_layers(first, second, *, samples=4, seed=2, of=lambda logits: logits, **options):
    """``f`` of the second layer, whose logits are rows ``second`` that the first layer picks."""
    paths = carms.Paths(samples, generator=generator(seed), **options)
    z1 = paths.sample(of(first))
    z2 = paths.sample(of((z1.unsqueeze(-1) * second).sum(-2)))
    return z1, z2, paths


def test_half_precision_is_computed_in_single():
    first = torch.randn(50, 2, 3, generator=generator(1), dtype=torch.bfloat16).requires_grad_()
    second = torch.randn(4, 50, 2, 5, generator=generator(2), dtype=torch.bfloat16).requires_grad_()

    def gradients(dtype):
        paths = carms.Paths(4, generator=generator(3))
        z1 = paths.sample(first.to(dtype))
        z2 = paths.sample(second.to(dtype))
        # Whole numbers that bfloat16 can hold, unlike their differences from their mean.
        value = paths.expectation(161 + f(z1) + f(z2))
        assert value.dtype == dtype
        return torch.autograd.grad(value.sum(), (first, second))

    for half, double in zip(gradients(torch.bfloat16), gradients(torch.float64), strict=True):
        assert half.dtype == torch.bfloat16
        assert double.abs().sum() > 1
        torch.testing.assert_close(half, double, rtol=0.01, atol=0.01)


def test_a_large_constant_changes_no_digit():
    first = torch.randn(50, 2, 3, generator=generator(1)).requires_grad_()
    second = torch.randn(4, 50, 2, 5, generator=generator(2)).requires_grad_()

    def gradients(constant):
        paths = carms.Paths(4, generator=generator(3))
        whole = f(paths.sample(first)) + f(paths.sample(second))
        return torch.autograd.grad(paths.expectation(whole + constant).sum(), (first, second))

    # Whole numbers below 2^24 are exact in single precision, and their sums are not.
    for with_it, without in zip(gradients(1.6e7), gradients(0.0), strict=True):
        assert without.abs().sum() > 1
        torch.testing.assert_close(with_it, without)


def test_masked_categories_are_never_drawn_and_have_no_gradient():
    first = torch.zeros(500, 1, 3)
    first[..., 1] = -torch.inf
    second = torch.zeros(1, 3, 4)
    second[..., 2] = -torch.inf
    first.requires_grad_()
    second.requires_grad_()
    paths = carms.Paths(4, generator=generator(1))
    z1 = paths.sample(first)
    z2 = paths.sample(second[0][z1.argmax(-1)])
    assert z1[..., 1].sum() == 0
    assert z2[..., 2].sum() == 0
    paths.expectation(f(z1) + f(z2)).sum().backward()
    for leaf, masked in ((first, 1), (second, 2)):
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[..., masked] == 0).all()
        assert leaf.grad.abs().sum() > 0


def test_distributions_are_their_logits():
    first = torch.randn(5, 2, generator=generator(1), dtype=torch.float64).requires_grad_()
    second = torch.randn(2, 3, generator=generator(2), dtype=torch.float64).requires_grad_()

    def gradients(bits, categories):
        paths = carms.Paths(4, generator=generator(3))
        z1 = paths.sample(bits)
        chosen = z1 if z1.ndim == 3 else z1[..., 1]
        logits = chosen.unsqueeze(-1) * second
        z2 = paths.sample(categories(logits))
        z3 = paths.sample(Bernoulli(logits=logits[..., 0]))
        assert z3.shape == (4, 5, 2)
        value = paths.expectation(f(z2) * (1 + z3.sum(-1)))
        return torch.autograd.grad(value.sum(), (first, second))

    by_logits = torch.stack((torch.zeros_like(first), first), -1)
    plain = gradients(by_logits, lambda logits: logits)
    for bits, categories in [
        (Bernoulli(logits=first), lambda logits: Categorical(logits=logits)),
        (Bernoulli(probs=first.sigmoid()), lambda logits: Categorical(probs=logits.softmax(-1))),
    ]:
        for one, other in zip(gradients(bits, categories), plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_indices_instead_of_one_hot():
    logits = torch.randn(5, 2, 3, generator=generator(1))
    dense = carms.Paths(4, generator=generator(2))
    sparse = carms.Paths(4, generator=generator(2))
    for given in (logits, logits.expand(4, -1, -1, -1), logits[..., :2]):
        z = dense.sample(given)
        indices = sparse.sample(given, one_hot=False)
        assert z.shape == (4, 5, 2, given.shape[-1])
        assert indices.dtype == torch.int64
        assert torch.equal(z.argmax(-1), indices)
        indices.zero_()  # what the user does with them is his affair
    values = torch.randn(4, 5, generator=generator(3))
    assert torch.equal(dense.expectation(values), sparse.expectation(values))


def test_coupled_where_shared_and_independent_given_the_path():
    # Four strata of the unit interval and four equal categories: a coupled draw is nearly a
    # permutation.
    logits = torch.zeros(4000, 1, 4)
    paths = carms.Paths(4, generator=generator(1))
    shared = paths.sample(logits, one_hot=False)
    each = paths.sample(logits.expand(4, -1, -1, -1), one_hot=False)
    again = paths.sample(logits, one_hot=False)

    def meetings(indices):
        """How often the first two paths agree."""
        return (indices[0] == indices[1]).float().mean().item()

    assert meetings(shared) < 0.15
    assert meetings(again) < 0.15
    assert meetings(each) == pytest.approx(0.25, abs=0.03)
    assert not torch.equal(shared, again)


def test_no_gradient_where_none_is_wanted():
    first, second = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3, 5, requires_grad=True)
    with torch.no_grad():
        _, z2, paths = two_layers(first, second)
        value = paths.expectation(f(z2))
    assert not value.requires_grad
    assert value == f(z2).mean()


def test_an_object_has_its_own_samples():
    paths = carms.Paths(estimator=carms.make("carms-s", samples=5, orderings=2))
    assert paths.samples == 5
    assert paths.sample(torch.zeros(2, 3)).shape == (5, 2, 3)
    assert carms.Paths(6, "carms-s", orderings=2).samples == 6
    assert repr(carms.Paths(6, "loorf")) == "Paths(samples=6, estimator=loorf(samples=6))"


def test_a_generator_spares_the_global_stream():
    before = torch.get_rng_state()
    first, second = torch.zeros(9, 2, 3), torch.zeros(2, 3, 5)
    one, other = (two_layers(first, second)[1] for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(two_layers(first, second, seed=3)[1], one)


def test_empty_batch_and_no_variables():
    for shape in [(0, 2, 3), (4, 0, 3)]:
        logits = torch.zeros(shape, requires_grad=True)
        paths = carms.Paths(4)
        z1 = paths.sample(logits)
        z2 = paths.sample(logits.expand(4, *shape))
        value = paths.expectation((z1 + z2).sum((-2, -1)) + 2)
        assert torch.equal(value, torch.full(shape[:1], 2.0))
        assert torch.autograd.grad(value.sum(), logits)[0].shape == shape


@pytest.mark.parametrize(
    "name", ["exact", "reinforce", "unord", "double-cv", "muprop", "indecater"]
)
def test_estimators_that_do_not_compare_their_samples(name):
    message = rf"must compare its samples with each other, as .*carms-s.*loorf do, got {name}"
    with pytest.raises(ValueError, match=message):
        carms.Paths(4, name)
    with pytest.raises(ValueError, match=r"must compare its samples with each other"):
        carms.Paths(estimator=carms.make(name, samples=4))


def test_unknown_options():
    with pytest.raises(ValueError, match="unknown estimator"):
        carms.Paths(4, "carm")
    with pytest.raises(TypeError, match="loorf has no option epsilon"):
        carms.Paths(4, "loorf", epsilon=0.1)
    with pytest.raises(ValueError, match="at least 2 samples"):
        carms.Paths(1, "loorf")


@pytest.mark.parametrize("shape", [(3, 2, 5), (4, 3, 7, 2, 5), (2, 5), (5, 7, 2, 5), (4, 1, 2, 5)])
def test_logits_that_fit_no_path(shape):
    paths = carms.Paths(4)
    paths.sample(torch.zeros(7, 2, 3))
    message = r"\[\*batch, D, C\] = \[7, D, C\], .* \[N, \*batch, D, C\] = \[4, 7, D, C\].*got sha"
    with pytest.raises(ValueError, match=message) as caught:
        paths.sample(torch.zeros(shape))
    assert str(list(shape)) in str(caught.value)
    assert caught.value.__context__ is None


def test_values_of_the_wrong_shape():
    paths = carms.Paths(4)
    paths.sample(torch.zeros(7, 2, 3))
    with pytest.raises(ValueError, match=r"one per sample, \[N, \*batch\] = \[4, 7\]"):
        paths.expectation(torch.zeros(7))
    with pytest.raises(ValueError, match="NaN or infinity for 28 of 28"):
        paths.expectation(torch.full((4, 7), torch.nan))


def test_logits_of_a_path_that_are_no_distribution():
    paths = carms.Paths(4)
    paths.sample(torch.zeros(7, 2, 3))
    with pytest.raises(ValueError, match=r"got NaN"):
        paths.sample(torch.full((4, 7, 2, 3), torch.nan))


def test_paths_are_used_once():
    paths = carms.Paths(4)
    with pytest.raises(RuntimeError, match="call sample before expectation"):
        paths.expectation(torch.zeros(4))
    z = paths.sample(torch.zeros(2, 3))
    paths.expectation(f(z))
    with pytest.raises(RuntimeError, match="make a new Paths for new values"):
        paths.expectation(f(z))
    with pytest.raises(RuntimeError, match="make a new Paths for new samples"):
        paths.sample(torch.zeros(2, 3))


def test_groups_are_tuples_as_indices_too():
    paths = carms.Paths(samples=4)
    a, b = paths.sample((torch.zeros(5, 2, 3), torch.zeros(5, 1, 4)), one_hot=False)
    assert a.shape == (4, 5, 2)
    assert b.shape == (4, 5, 1)
