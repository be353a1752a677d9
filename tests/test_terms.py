"""Losses that are sums: each variable is judged by its own terms alone."""

import pytest
import torch
from helpers import RandomTable, generator, logits_of, replicate
from helpers.terms import MASKS, TAKES, Terms, categories_for
from torch.distributions import Bernoulli

import carms


def results(name, f, logits, terms=None, seed=9, **options):
    estimator = carms.make(name, samples=4)
    value = estimator.expectation(f, logits, generator(seed), terms=terms, **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


@pytest.mark.parametrize("name", TAKES)
def test_only_its_own_terms_move_a_variable(name):
    if name == "ridge":
        pytest.skip("its scale is common to all variables")
    categories = categories_for(name)
    f, other = (Terms(MASKS["reward-to-go"], categories, seed=seed) for seed in (0, 1))
    logits = logits_of(50, 3, categories)
    _, gradient = results(name, f, logits, f.mask)
    # The last variable is in the last term alone: the others are replaced.
    other.tables[2] = f.tables[2]
    _, replaced = results(name, other, logits, f.mask)
    if name == "exact":
        torch.testing.assert_close(gradient[:, 2], replaced[:, 2])
    else:
        assert torch.equal(gradient[:, 2], replaced[:, 2])
    assert not torch.allclose(gradient[:, 1], replaced[:, 1])


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_terms_that_depend_on_everything_are_their_sum(name, kind):
    categories = categories_for(name)
    f = Terms(torch.ones(4, 3), categories)
    logits = logits_of(20, 3, categories)
    plain = results(name, lambda z: f(z).sum(-1), logits)
    full = results(name, f, logits, torch.ones(4, 3, dtype=kind))
    torch.testing.assert_close(full[0], plain[0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(full[1], plain[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TAKES)
def test_a_single_term_is_no_terms_to_the_bit(name):
    categories = categories_for(name)
    f, logits = RandomTable(3, categories), logits_of(20, 3, categories)
    plain = results(name, f, logits)
    single = results(name, lambda z: f(z).unsqueeze(-1), logits, torch.ones(1, 3))
    assert torch.equal(single[0], plain[0])
    if name == "arsm":  # sums over samples in another order
        torch.testing.assert_close(single[1], plain[1], rtol=1e-12, atol=1e-14)
    else:
        assert torch.equal(single[1], plain[1])


@pytest.mark.parametrize("name", TAKES)
def test_two_steps_are_one(name):
    categories = categories_for(name)
    f, logits = Terms(MASKS["factors"], categories), logits_of(4, 3, categories)
    value, gradient = results(name, f, logits, f.mask)
    estimator = carms.make(name, samples=4)
    draw = estimator.sample(logits, generator(9))
    again = estimator.surrogate(draw, f(draw.z), f.mask)
    assert torch.equal(again, value)
    assert torch.equal(torch.autograd.grad(again.sum(), logits)[0], gradient)
    by_name = carms.expectation(f, logits, name, 4, generator(9), terms=f.mask)
    assert torch.equal(by_name, value)
    assert torch.equal(torch.autograd.grad(by_name.sum(), logits)[0], gradient)


@pytest.mark.parametrize("name", TAKES)
def test_indices_instead_of_one_hot(name):
    categories = categories_for(name)
    f, logits = Terms(MASKS["factors"], categories), logits_of(4, 3, categories)
    dense = results(name, f, logits, f.mask)
    sparse = results(name, f.of_indices, logits, f.mask, one_hot=False)
    assert torch.equal(dense[0], sparse[0])
    assert torch.equal(dense[1], sparse[1])


@pytest.mark.parametrize("name", [n for n in TAKES if hasattr(carms.make(n), "contributions")])
def test_the_mean_of_the_contributions_is_the_gradient(name):
    categories = categories_for(name)
    f, logits = Terms(MASKS["factors"], categories), logits_of(4, 3, categories)
    estimator = carms.make(name, samples=4)
    draw = estimator.sample(logits, generator(9))
    found = estimator.contributions(draw, f(draw.z), f.mask).mean(0)
    _, gradient = results(name, f, logits, f.mask)
    torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-12)


def variance(name, f, logits, terms=None):
    _, gradients = replicate(
        carms.make(name, samples=8), lambda z, _: f(z), logits, 3000, chunk=3000, terms=terms
    )
    return gradients.variance.sum().item()


def test_variance_of_a_separable_sum_falls_to_that_of_its_terms():
    weight = torch.randn(20, 8, generator=generator(1))
    logits = torch.randn(20, 8, generator=generator(2))

    def f(z):
        return (z * weight).sum(-1)

    alone = variance("loorf", f, logits, torch.eye(20))
    together = variance("loorf", lambda z: f(z).sum(-1), logits)
    assert alone < 0.1 * together
    assert variance("carms-s", f, logits, torch.eye(20)) < 0.035 * together


def test_exact_sums_the_terms():
    f, logits = Terms(MASKS["factors"], 3), logits_of(3, 3)
    value, gradient = results("exact", f, logits, f.mask)
    true_value, true_gradient = f.total.expectation(logits.detach().softmax(-1))
    assert value.item() == pytest.approx(true_value, rel=1e-12)
    torch.testing.assert_close(gradient, true_gradient, rtol=1e-10, atol=1e-12)


def test_compare_knows_the_truth_of_the_sum():
    f, logits = Terms(MASKS["separable"], 3), logits_of(3, 3).detach()
    names = ["loorf", "carms-s", "exact"]
    alone = carms.compare(
        f, logits, names, 4, 400, generator(1), terms=torch.eye(3, dtype=torch.bool)
    ).to_dict()
    together = carms.compare(lambda z: f(z).sum(-1), logits, names, 4, 400, generator(1)).to_dict()
    assert alone["exact"]["bias"] < 1e-12
    for name in names[:-1]:
        assert alone[name]["bias"] < 4 * alone[name]["standard_error"]
        assert alone[name]["variance"] < 0.7 * together[name]["variance"]
        assert alone[name]["evaluations"] == together[name]["evaluations"]


def test_bernoulli():
    logits = logits_of(5, 3)
    weight = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    value = carms.expectation(
        lambda z: z * weight, Bernoulli(logits=logits), "arms", 4, generator(9), terms=torch.eye(3)
    )
    both = torch.stack((torch.zeros_like(logits), logits), -1)
    same = carms.expectation(
        lambda z: z[..., 1] * weight, both, "arms", 4, generator(9), terms=torch.eye(3)
    )
    assert torch.equal(value, same)
    one, other = (torch.autograd.grad(v.sum(), logits)[0] for v in (value, same))
    torch.testing.assert_close(one, other)


def test_half_precision_sums_are_not_rounded():
    """Sixty terms near 100: their sum, in half precision, would have steps of four."""
    logits = torch.zeros(500, 1, 2, dtype=torch.float16, requires_grad=True)

    def f(z):
        return 100 + torch.zeros(60, dtype=z.dtype) + z[..., 0, :1]

    value = carms.expectation(f, logits, "loorf", 8, generator(1), terms=torch.ones(60, 1))
    gradient = torch.autograd.grad(value.sum(), logits)[0].float().mean(0)
    wide = logits.detach().double().requires_grad_()
    precise = carms.expectation(f, wide, "loorf", 8, generator(1), terms=torch.ones(60, 1))
    expected = torch.autograd.grad(precise.sum(), wide)[0].float().mean(0)
    torch.testing.assert_close(gradient, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["loorf", "carms-s"])
def test_compiled_and_mapped(name):
    estimator = carms.make(name, samples=4)
    weight = torch.randn(3, 3, generator=generator(1))

    def loss(logits):
        return estimator.expectation(
            lambda z: (z * weight).sum(-1), logits, terms=torch.eye(3)
        ).sum()

    torch.compiler.reset()
    logits = torch.zeros(6, 3, 3, requires_grad=True)
    torch.compile(loss, fullgraph=True, backend="aot_eager")(logits).backward()
    assert logits.grad.abs().sum() > 0
    torch.compiler.reset()
    mapped = torch.func.vmap(torch.func.grad(loss), randomness="different")(logits.detach())
    assert mapped.shape == logits.shape
    assert mapped.abs().sum() > 0
