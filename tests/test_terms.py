"""Losses that are sums: each variable is judged by its own terms alone, and nothing is biased."""

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    COPULAS,
    Moments,
    RandomTable,
    configurations,
    dirichlet_probs,
    expectation,
    generator,
    logits_of,
    replicate,
)
from torch.distributions import Bernoulli

import carms

NAMES = carms.available()
TAKES = [name for name in NAMES if not carms.make(name, samples=4).no_terms]
REFUSES = [name for name in NAMES if name not in TAKES]
MASKS = {
    "separable": torch.eye(3, dtype=torch.bool),
    "reward-to-go": torch.ones(3, 3).tril(),
    # Two factors, a term of one variable alone, and one that is a constant.
    "factors": torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]]),
}


class Terms:
    """Random tables, each a function of those of three variables that its row of the mask names."""

    def __init__(self, mask, categories, seed=0):
        self.mask = mask
        shape = len(mask), categories, categories, categories
        self.tables = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
        for table, row in zip(self.tables, mask.bool().tolist(), strict=True):
            others = [variable for variable, own in enumerate(row) if not own]
            if others:
                table[:] = table.mean(others, keepdim=True)
        self.total = RandomTable(3, categories)
        self.total.values = self.tables.sum(0)

    def of_indices(self, indices):
        return self.tables[:, *indices.long().unbind(-1)].movedim(0, -1)

    def __call__(self, z):
        return self.of_indices(z.argmax(-1))


def categories_for(name):
    return 2 if name in BINARY_ONLY else 3


def assert_unbiased(estimator, mask, concentration, replicates=200_000, categories=3):
    f = Terms(MASKS[mask], categories, seed=11)
    probs = dirichlet_probs(concentration, 3, categories, seed=7, floor=0.01)
    value, gradient = f.total.expectation(probs)
    values, gradients = replicate(
        estimator, lambda z, _: f(z), probs.log(), replicates, terms=MASKS[mask]
    )
    assert gradients.variance.max() > 0
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


@pytest.mark.parametrize("copula", COPULAS)
def test_unbiased_under_every_copula_and_ordering(copula):
    # The strata are too regular for one ordering: any epsilon lets every pair be drawn.
    epsilon = 0.2 if copula == "stratified" else 0.0
    one = carms.make(
        "carms-i", samples=4, copula=copula, orderings="largest-first", epsilon=epsilon
    )
    # The CDF of the Gaussian is an integral.
    assert_unbiased(one, "reward-to-go", 0.1, 50_000 if copula == "gaussian" else 200_000)
    every = carms.make("carms-i", samples=4, copula=copula, orderings="all")
    assert_unbiased(every, "separable", 1.0)


@pytest.mark.parametrize(
    "options",
    [{}, {"orderings": 3}, {"epsilon": 0.2}],
    ids=["given order", "3 orderings", "epsilon"],
)
def test_unbiased_on_the_ring(options):
    assert_unbiased(carms.make("carms-s", samples=4, **options), "factors", 0.1)


@pytest.mark.parametrize(
    "name", [n for n in TAKES if carms.make(n, samples=4).unbiased and n != "exact"]
)
def test_unbiased(name):
    replicates = {"carms-g": 200_000, "unord": 20_000}.get(name, 50_000)
    estimator = carms.make(name, samples=4)
    assert_unbiased(estimator, "factors", 1.0, replicates, categories_for(name))


def test_constant_baseline_is_unbiased():
    assert_unbiased(carms.make("reinforce", samples=4, baseline=0.7), "factors", 0.1, 50_000)


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


@pytest.mark.parametrize("name", ["loorf", "carms-s", "reinforce", "arsm", "local-expectation"])
def test_other_tensors_get_their_gradient_and_so_do_logits_inside_f(name):
    """Each term has weights of its own and subtracts the log probability of its variable."""
    probs = dirichlet_probs(1.0, 3, 3, seed=7, floor=0.05)
    weight = logits_of(3, 3, seed=1)

    def terms(z, logits, weight):
        return (z * weight).sum(-1).exp() - (z * logits.log_softmax(-1)).sum(-1)

    leaf, points = probs.log().requires_grad_(), configurations(3, 3)
    chance = (leaf.softmax(-1) * points).sum(-1).prod(-1)
    truth = (chance * terms(points, leaf, weight).sum(-1)).sum()
    expected = torch.autograd.grad(truth, (leaf, weight))

    logits = probs.log().expand(50_000, 3, 3).clone().requires_grad_()
    weights = weight.detach().expand(50_000, 3, 3).clone().requires_grad_()
    value = carms.make(name, samples=4).expectation(
        lambda z: terms(z, logits, weights), logits, generator(4), terms=torch.eye(3)
    )
    for found, true in zip(
        torch.autograd.grad(value.sum(), (logits, weights)), expected, strict=True
    ):
        moments = Moments()
        moments.add(found)
        assert moments.agrees_with(true)
    moments = Moments()
    moments.add(value.detach())
    assert moments.agrees_with(truth.detach())


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


def one_each(z):
    return z[..., 0]


def raises(kind, message, f=one_each, name="loorf", logits=None, **options):
    """Exactly one error, not the consequence of another."""
    logits = torch.zeros(5, 3, 2) if logits is None else logits
    with pytest.raises(kind, match=message) as caught:
        expectation(f, logits, name, samples=4, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", REFUSES)
def test_refused_by_name(name):
    estimator = carms.make(name, samples=4)
    message = rf"{name}\(samples=4.*takes no terms: .*; let f return their sum"
    raises(ValueError, message, name=name, terms=torch.eye(3))
    assert len(estimator.no_terms) > 20


def test_refused_with_a_running_mean():
    estimator = carms.make("reinforce", samples=4, baseline="running-mean")
    with pytest.raises(ValueError, match=r"reinforce.*takes no terms: its running mean"):
        estimator.expectation(one_each, torch.zeros(3, 2), terms=torch.eye(3))


def test_some_take_terms_and_some_do_not():
    assert {"loorf", "carms-s", "carms-i", "carms-g", "carts", "arms", "unord"} <= set(TAKES)
    assert {"straight-through", "rebar"} <= set(REFUSES)


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize(
    "shape", [(3,), (3, 2), (1, 3, 3), ()], ids=["vector", "transposed", "batch", "number"]
)
def test_mask_of_the_wrong_shape(name, shape):
    message = rf"terms must be \[K, D\].*D = 3 variables; got shape \[{', '.join(map(str, shape))}"
    raises(ValueError, message, name=name, terms=torch.ones(shape))


@pytest.mark.parametrize("terms", [[[1, 0, 0]], 3, True, "all"])
def test_mask_of_another_type(terms):
    message = rf"terms must be a tensor \[K, D\] of zeros and ones, got {type(terms).__name__}"
    raises(TypeError, message, terms=terms)


@pytest.mark.parametrize("number", [0.5, -1.0, 2.0, float("nan"), float("inf")])
def test_mask_with_other_numbers(number):
    terms = torch.eye(3)
    terms[1, 1] = number
    raises(ValueError, "terms must be zeros and ones .*got other numbers", terms=terms)


def test_a_variable_without_terms():
    terms = torch.eye(3)
    terms[1, 1] = 0
    raises(ValueError, "no term depends on variable 1: .*column of terms needs a one", terms=terms)
    nothing = torch.zeros(0, 3)
    raises(
        ValueError, "no term depends on variable 0, 1, 2", lambda z: z[..., :0, 0], terms=nothing
    )


@pytest.mark.parametrize(
    ("f", "got"),
    [
        (lambda z: z.sum((-2, -1)), r"\[4, 5\]"),
        (lambda z: z[..., :2, 0], r"\[4, 5, 2\]"),
        (lambda z: z, r"\[4, 5, 3, 2\]"),
        (lambda z: z[0, ..., 0], r"\[5, 3\]"),
    ],
    ids=["summed", "too few", "too deep", "one sample"],
)
def test_f_that_does_not_return_the_terms(f, got):
    message = rf"each of the 3 terms, \[N, \*batch, K\] = \[4, 5, 3\], got shape {got}"
    raises(ValueError, message, f, terms=torch.eye(3))


def test_f_of_terms_that_are_no_numbers():
    message = r"the values of f must be a tensor \[N, \*batch, K\] = \[4, 5, 3\], got list"
    raises(TypeError, message, lambda z: [z], terms=torch.eye(3))
    raises(TypeError, "floating point", lambda z: z[..., 0].long(), terms=torch.eye(3))
    infinite = "NaN or infinity for 60 of 60"
    raises(ValueError, infinite, lambda z: z[..., 0] + torch.inf, terms=torch.eye(3))


def test_one_value_per_variable_without_terms_is_told_of_them():
    raises(ValueError, r"terms=torch\.eye\(3\)", lambda z: z[..., 0], logits=torch.zeros(3, 2))


def test_surrogate_and_contributions_check_as_well():
    estimator = carms.make("carms-s", samples=4)
    draw = estimator.sample(torch.zeros(5, 3, 2))
    for method in (estimator.surrogate, estimator.contributions):
        with pytest.raises(ValueError, match=r"terms must be \[K, D\]"):
            method(draw, torch.zeros(4, 5, 3), torch.eye(2))
        with pytest.raises(ValueError, match=r"= \[4, 5, 3\], got shape \[4, 5\]"):
            method(draw, torch.zeros(4, 5), torch.eye(3))


def test_bad_terms_are_refused_before_f_is_evaluated():
    def never(z):
        raise AssertionError("f was evaluated")

    logits = logits_of(5, 3, 2)
    for name, terms in (
        ("carms-s", torch.eye(2)),
        ("carms-t", torch.eye(3)),
        ("reinmax", torch.eye(3)),
    ):
        with pytest.raises(ValueError, match="terms"):
            carms.expectation(never, logits, name, samples=4, terms=terms)
