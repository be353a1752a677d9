"""Every estimator of subsets: values and gradients against enumeration, and its contract."""

import pytest
import torch
from helpers import Moments, generator, z_limit
from listed import Rankings, normal, table_of_rankings, table_of_subsets

import carms.subsets.carms as coupled
from carms import subsets
from carms.estimators.families import cross_fit

ESTIMATORS = subsets.available()


def facts(name):
    return type(subsets.make(name, 2))


UNBIASED = [name for name in ESTIMATORS if facts(name).unbiased and name != "exact"]
BLACK_BOX = [name for name in ESTIMATORS if facts(name).black_box]


def replicates(made, f, logits, count=200_000, chunk=20_000, seed=0):
    """Moments of value and gradient, the replicates being a batch."""
    source, values, gradients = generator(seed), Moments(), Moments()
    for _ in range(count // chunk):
        leaf = logits.expand(chunk, -1).clone().requires_grad_()
        value = made.expectation(f, leaf, source)
        values.add(value.detach())
        gradients.add(torch.autograd.grad(value.sum(), leaf)[0])
    return values, gradients


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("name", UNBIASED)
def test_subsets_are_unbiased(name, scale):
    listed = Rankings(normal(5, seed=1, scale=scale), 2)
    f = table_of_subsets(5)
    values, gradients = replicates(subsets.make(name, 2, samples=4), f, listed.logits)
    assert values.agrees_with(listed.probs @ f(listed.z))
    assert gradients.agrees_with(listed.gradient(f(listed.z)))


@pytest.mark.parametrize("name", [name for name in UNBIASED if facts(name).black_box])
def test_rankings_are_unbiased(name):
    listed = Rankings(normal(4, seed=1), 3)
    f = table_of_rankings(4, 3)
    made = subsets.make(name, 3, samples=4, ordered=True)
    values, gradients = replicates(made, f, listed.logits)
    assert values.agrees_with(listed.probs @ f(listed.items))
    assert gradients.agrees_with(listed.gradient(f(listed.items)))


@pytest.mark.parametrize(("picks", "samples"), [(1, 2), (2, 5), (3, 5)])
def test_coupled_picks_are_unbiased(monkeypatch, picks, samples):
    """Subsets too many to be listed, of which some picks or all are coupled."""
    monkeypatch.setattr(coupled, "MOST_LISTED", 0)
    monkeypatch.setattr(coupled, "COUPLED", picks)
    listed = Rankings(normal(5, seed=2, scale=1.5), 3)
    f = table_of_subsets(5)
    made = subsets.make("carms", 3, samples=samples, epsilon=0.1)
    values, gradients = replicates(made, f, listed.logits, 60_000)
    assert values.agrees_with(listed.probs @ f(listed.z))
    assert gradients.agrees_with(listed.gradient(f(listed.z)))


def test_slopes_that_mislead_bias_nothing(monkeypatch):
    """Slopes and exchanges alone, as of a single example."""
    listed = Rankings(normal(4, seed=3), 2)
    f = table_of_subsets(4, seed=5)
    monkeypatch.setattr(
        cross_fit, "cross_fit", lambda own, past: torch.ones(*own.shape[:-2], 2, dtype=own.dtype)
    )
    made = subsets.make("carms-t", 2, samples=4)
    _, gradients = replicates(made, f, listed.logits, 100_000)
    assert gradients.agrees_with(listed.gradient(f(listed.z)))


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not facts(name).unbiased])
def test_who_is_called_biased_is_biased(name):
    listed = Rankings(normal(5, seed=1), 2)
    f = table_of_subsets(5)
    made = subsets.make(name, 2, samples=4)
    _, gradients = replicates(made, f, listed.logits, 20_000)
    assert gradients.z(listed.gradient(f(listed.z))).max() > 2 * z_limit(5)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_exact_is_exact(size, ordered):
    listed = Rankings(normal(4, seed=1), size)
    f = table_of_rankings(4, size) if ordered else table_of_subsets(4)
    truth = f(listed.items if ordered else listed.z)
    leaf = listed.logits.clone().requires_grad_()
    value = subsets.expectation(f, leaf, size, ordered=ordered, estimator="exact")
    assert value.item() == pytest.approx(float(listed.probs @ truth))
    (gradient,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(gradient, listed.gradient(truth), rtol=0, atol=1e-8)


def test_exact_does_not_round_probabilities_to_half_precision():
    constant = subsets.make("exact", 8).expectation(
        lambda z: (3 + 0 * z.sum(-1)).half(), torch.zeros(18)
    )
    assert constant.item() == 3


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "relaxed"])
def test_f_sees_subsets_and_gradients_add_up_to_zero(name):
    source = normal(6, 6, seed=7)
    seen = []

    def f(z):
        seen.append(z)
        return torch.einsum("...i,ij,...j", z, source, z)

    leaf = normal(3, 6, seed=8).requires_grad_()
    value = subsets.expectation(f, leaf, 2, estimator=name, generator=generator())
    assert value.shape == (3,)
    value.sum().backward()
    assert leaf.grad.shape == (3, 6)
    assert seen[0].shape[1:] == (3, 6)
    assert seen[0].dtype == torch.float64
    assert (seen[0].detach().sum(-1) == 2).all()
    assert ((seen[0].detach() == 0) | (seen[0].detach() == 1)).all()
    # Adding a constant to all logits changes nothing.
    assert leaf.grad.sum(-1).abs().max() < 1e-9


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_two_steps_are_one(name, dtype, batch):
    logits = normal(*batch, 6).to(dtype).requires_grad_()
    weight = normal(6).to(dtype).requires_grad_()

    def f(z):
        return (z @ weight).tanh()

    once = subsets.expectation(f, logits, 2, samples=4, estimator=name, generator=generator())
    draw = subsets.sample(logits, 2, samples=4, estimator=name, generator=generator())
    twice = subsets.surrogate(draw, f(draw.z))
    assert once.shape == batch
    assert once.dtype == dtype
    assert torch.equal(once, twice)
    both = [torch.autograd.grad(value.sum(), (logits, weight)) for value in (once, twice)]
    for one, other in zip(*both, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()
        assert one.dtype == dtype
    state = torch.random.get_rng_state()
    subsets.sample(logits, 2, samples=4, estimator=name, generator=generator())
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", BLACK_BOX)
def test_rankings_come_in_order(name):
    logits = torch.tensor([0.0, 300.0, 200.0, 100.0], requires_grad=True)
    draw = subsets.sample(logits, 3, ordered=True, estimator=name)
    assert torch.equal(draw.z, draw.items)
    likeliest = draw.items[0] if name != "exact" else draw.items[draw.memory.probs.argmax()]
    assert likeliest.tolist() == [1, 2, 3]
    subsets.surrogate(draw, draw.items[:, 0].float()).backward()
    assert logits.grad.abs().max() < 1e-6


@pytest.mark.parametrize("name", BLACK_BOX)
def test_permutations(name):
    logits = normal(4).requires_grad_()
    draw = subsets.sample(logits, 4, ordered=True, estimator=name)
    assert torch.equal(draw.items.sort(-1).values, torch.arange(4).expand(draw.items.shape))
    subsets.surrogate(draw, draw.items[:, 0].double()).backward()
    assert logits.grad.abs().max() > 1e-4


@pytest.mark.parametrize("name", ESTIMATORS)
def test_all_items_are_certain(name):
    """Of n out of n items there is nothing to learn."""
    logits = normal(2, 3).requires_grad_()
    value = subsets.expectation(lambda z: z @ torch.arange(3.0).double(), logits, 3, estimator=name)
    value.sum().backward()
    assert logits.grad.isfinite().all()
    if facts(name).unbiased:
        assert value.tolist() == pytest.approx([3, 3])
        assert logits.grad.abs().max() < 1e-9


@pytest.mark.parametrize(
    ("name", "ordered"),
    [*((name, False) for name in ESTIMATORS), *((name, True) for name in BLACK_BOX)],
)
def test_masked_items(name, ordered):
    logits = normal(3, 6)
    logits[0, :4] = -torch.inf  # two are left
    logits[1, 2] = -torch.inf
    logits = logits.requires_grad_()
    allowed = logits.detach() > -torch.inf

    def f(z):
        chosen = z if not ordered else torch.zeros(len(z), 3, 6).double().scatter(-1, z, 1)
        assert (chosen.detach()[:, ~allowed] == 0).all()
        return (chosen * torch.arange(6.0)).sum(-1)

    value = subsets.expectation(f, logits, 2, ordered=ordered, estimator=name)
    value.sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~allowed] == 0).all()
    assert value[0].item() == pytest.approx(9)


@pytest.mark.parametrize("name", ["loorf", "carms", "carms-t", "straight-through"])
def test_a_hundred_of_ten_thousand(name):
    logits = (4 * torch.randn(10_000)).requires_grad_()
    weight = torch.randn(10_000)
    value = subsets.expectation(lambda z: (z @ weight).tanh(), logits, 100, 4, estimator=name)
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().max() > 0


def test_a_long_ranking():
    logits = (4 * torch.randn(2, 2000)).requires_grad_()
    value = subsets.expectation(lambda items: items[..., 0].float(), logits, 2000, 4, ordered=True)
    value.sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_examples(name):
    logits = torch.zeros(0, 12, requires_grad=True)
    value = subsets.expectation(lambda z: z.sum(-1), logits, 4, samples=4, estimator=name)
    value.sum().backward()
    assert value.shape == (0,)
    assert logits.grad.shape == (0, 12)


@pytest.mark.parametrize("name", BLACK_BOX)
def test_works_without_a_gradient(name):
    with torch.no_grad():
        value = subsets.expectation(lambda z: z[..., 0], torch.zeros(2, 5), 2, estimator=name)
    assert value.shape == (2,)
    assert not value.requires_grad


def test_less_variance_than_independent_rankings():
    """Averaged over orders, coupled, without replacement; and with slopes."""
    logits, f = normal(6, seed=2, scale=1.5), table_of_subsets(6)

    def variance(name, **options):
        made = subsets.make(name, 3, samples=8, **options)
        seen = by_rank if made.ordered else f
        return float(replicates(made, seen, logits, 10_000, 2000)[1].variance.sum())

    def by_rank(items):
        return f(torch.zeros(*items.shape[:-1], 6).double().scatter(-1, items, 1))

    by_order, loorf, carms, unord, carms_t = (
        variance("loorf", ordered=True),
        *(variance(name) for name in ("loorf", "carms", "unord", "carms-t")),
    )
    assert loorf < 0.97 * by_order
    assert carms < 0.8 * loorf
    assert unord < 0.8 * carms
    assert carms_t < 0.8 * loorf


LOGITS = torch.zeros(2, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: subsets.make("karms", 2), ValueError, "'karms'; did you mean carms or carms-t"),
        (lambda: subsets.make("karl", 2), ValueError, "'karl'; there are carms, carms-t, exact"),
        (lambda: subsets.sample(LOGITS, "loorf"), TypeError, "did you mean estimator='loorf'"),
        (lambda: subsets.sample(LOGITS, subsets.make("loorf", 2)), TypeError, "is made already"),
        (lambda: subsets.make("loorf", 0), ValueError, "at least 1, got 0"),
        (lambda: subsets.make("loorf", 1.5), TypeError, "size must be a whole number, got 1.5"),
        (lambda: subsets.make("loorf", 2, samples=1), ValueError, "at least 2 samples, got"),
        (lambda: subsets.make("relaxed", 2, samples=0), ValueError, "at least 1 sample, got"),
        (lambda: subsets.make("loorf", 2, colour=1), TypeError, "loorf has no option colour"),
        (
            lambda: subsets.sample(LOGITS, 2, estimator=subsets.make("loorf", 2)),
            TypeError,
            r"loorf\(size=2, samples=8\) is made already; call its own",
        ),
        (lambda: subsets.make("carms", 2, epsilon=2), ValueError, "epsilon is a probability"),
        (lambda: subsets.make("carms-t", 2, ordered=True), ValueError, "ordered=True"),
        (lambda: subsets.make("carms-t", 2, neighbours=5), ValueError, "1 to 4 of them"),
        (lambda: subsets.sample(LOGITS, 5), ValueError, "size=5 items cannot be chosen of n = 4"),
        (lambda: subsets.sample(LOGITS.log(), 1), ValueError, "nothing but -inf"),
        (
            lambda: subsets.sample(torch.tensor([0.0, 0.0, -torch.inf]), 3),
            ValueError,
            "size=3 items cannot be chosen where all but 2 of the n = 3",
        ),
        (lambda: subsets.sample(LOGITS.long(), 1), TypeError, "floating point, got torch.int64"),
        (lambda: subsets.sample([0.0, 1.0], 1), TypeError, "a tensor .*, got list"),
        (lambda: subsets.sample(torch.tensor(1.0), 1), ValueError, r"got shape \[\]"),
        (lambda: subsets.sample(LOGITS / 0, 1), ValueError, "got NaN"),
        (
            lambda: subsets.expectation(lambda z: z, LOGITS, 2),
            ValueError,
            r"one per sample, \[N, \*batch\] = \[8, 2\], got shape \[8, 2, 4\]",
        ),
        (
            lambda: subsets.sample(torch.zeros(60), 20, estimator="unord"),
            ValueError,
            "lists at most 65,536 subsets",
        ),
        (
            lambda: subsets.expectation(
                lambda z: z.detach()[..., 0],
                LOGITS.clone().requires_grad_(),
                2,
                estimator="relaxed",
            ),
            ValueError,
            "needs a differentiable f",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_estimator_without_a_name_is_called_by_its_class():
    class Mine(facts("loorf")):
        name = ""

    assert repr(Mine(2)) == "Mine(size=2, samples=8)"
    with pytest.raises(ValueError, match="Mine needs at least 2 samples, got samples=1"):
        Mine(2, samples=1)


def test_a_draw_knows_its_maker():
    draw = subsets.sample(LOGITS, 2)
    with pytest.raises(ValueError, match="cannot use a draw of carms"):
        subsets.make("loorf", 2).surrogate(draw, torch.zeros(8, 2))
