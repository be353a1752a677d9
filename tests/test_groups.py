"""Groups of variables with different numbers of categories, side by side."""

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    RandomTable,
    assert_two_steps_are_one,
    configurations,
    expectation,
    generator,
    logits_of,
    replicate,
)
from torch.distributions import Bernoulli, Categorical, OneHotCategorical

import carms
from carms.core.groups import join, split

NAMES = [name for name in carms.available() if name not in BINARY_ONLY]
UNBIASED = [name for name in NAMES if carms.make(name, samples=4).unbiased and name != "exact"]
SHAPES = [(2, 2), (1, 3), (1, 5)]
SIZES = [variables * categories for variables, categories in SHAPES]
# Two binary variables, one of three categories and one of five.
TABLE = torch.randn(2, 2, 3, 5, generator=generator(3), dtype=torch.float64)
BENDS = [torch.randn(shape, generator=generator(4), dtype=torch.float64) for shape in SHAPES]


def table_of(*indices):
    return TABLE[torch.cat(indices, -1).unbind(-1)]


def f(*z):
    """A random number for every configuration, smooth and curved in between."""
    soft = torch.einsum(
        "ijkl,...i,...j,...k,...l->...",
        *(TABLE, z[0][..., 0, :], z[0][..., 1, :], z[1][..., 0, :], z[2][..., 0, :]),
    )
    bends = zip(BENDS, z, strict=True)
    return soft + sum((bend * (each**3 - each)).sum((-2, -1)) for bend, each in bends)


def as_groups(flat):
    """``[..., all logits]`` as a tuple of groups."""
    parts = flat.split(SIZES, -1)
    return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, SHAPES, strict=True))


def enumerated(flat):
    """``E f`` and its gradient, from all configurations."""
    leaf = flat.detach().clone().requires_grad_()
    tables = [
        (group.softmax(-1) * configurations(*shape)).sum(-1).prod(-1)
        for group, shape in zip(as_groups(leaf), SHAPES, strict=True)
    ]
    chances = torch.einsum("a,b,c->abc", *tables).view(2, 2, 3, 5)
    value = (chances * TABLE).sum()
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.fixture
def flat():
    return 0.7 * logits_of(sum(SIZES)).detach()


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased(name, flat):
    estimator = carms.make(name, samples=4).eval()
    value, gradient = enumerated(flat)
    values, gradients = replicate(
        estimator, lambda *z: f(*z[:-1]), flat, 20_000, wrap=as_groups, chunk=5_000
    )
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)
    assert gradients.variance.min() > 0


def test_exact(flat):
    leaf = flat.requires_grad_()
    found = carms.expectation(f, as_groups(leaf), "exact")
    value, gradient = enumerated(flat)
    torch.testing.assert_close(found.detach(), value)
    torch.testing.assert_close(torch.autograd.grad(found, leaf)[0], gradient)


def test_exact_counts_the_configurations_that_each_group_has():
    groups = torch.zeros(1, 300), torch.distributions.Bernoulli(logits=torch.zeros(2))
    seen = []

    def count(z, bits):
        seen.append((z.shape, bits.shape))
        return z[..., 0, 7] * bits.sum(-1)

    value = carms.expectation(count, groups, "exact")
    assert seen == [((1200, 1, 300), (1200, 2))]
    assert value.item() == pytest.approx(1 / 300)
    found = carms.compare(count, groups, ["loorf"], 4, 20).to_dict()
    assert found["loorf"]["bias"] is not None
    with pytest.raises(ValueError, match=r"got C\^D = 300\^1 \* 2\^9"):
        carms.expectation(count, (torch.zeros(1, 300), torch.zeros(9, 2)), "exact")


@pytest.mark.parametrize("name", NAMES)
def test_padding_by_hand_is_the_same(name, flat):
    leaf = flat.expand(6, -1).clone().requires_grad_()
    value = carms.make(name, samples=4).expectation(f, as_groups(leaf), generator(1))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)

    padded = torch.full((6, 4, 5), -torch.inf, dtype=torch.float64)
    groups = as_groups(leaf.detach())
    padded[:, :2, :2], padded[:, 2:3, :3], padded[:, 3:] = groups
    padded.requires_grad_()
    by_hand = carms.make(name, samples=4).expectation(
        lambda z: f(z[..., :2, :2], z[..., 2:3, :3], z[..., 3:, :]), padded, generator(1)
    )
    (wide,) = torch.autograd.grad(by_hand.sum(), padded)
    own = torch.cat([part.flatten(-2) for part in split(wide, groups)], -1)
    # Of groups, `exact` adds up fewer configurations.
    error = 1e-12 if name == "exact" else 0
    torch.testing.assert_close(value, by_hand, rtol=error, atol=error)
    torch.testing.assert_close(gradient, own, rtol=error, atol=error)
    # What was padded gets nothing.
    assert (wide[padded.isneginf()] == 0).all()


def test_join_and_split():
    groups = [logits_of(3, *shape).detach() for shape in SHAPES]
    wide = join(groups)
    assert wide.shape == (3, 4, 5)
    assert int(wide.isneginf().sum()) == 3 * (2 * 3 + 2)
    for part, group in zip(split(wide, groups), groups, strict=True):
        assert torch.equal(part, group)


@pytest.mark.parametrize("name", NAMES)
def test_two_steps_are_one(name, flat):
    leaf = flat.expand(6, -1).clone().requires_grad_()
    value = carms.make(name, samples=4).expectation(f, as_groups(leaf), generator(1))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    estimator = carms.make(name, samples=4)
    draw = estimator.sample(as_groups(leaf), generator(1))
    first, second, third = draw.z
    rows = len(draw.indices)
    assert draw.indices.shape == (rows, 6, 4)
    assert first.shape == (rows, 6, 2, 2)
    assert second.shape == (rows, 6, 1, 3)
    assert third.shape == (rows, 6, 1, 5)
    again = estimator.surrogate(draw, f(first, second, third))
    assert torch.equal(again, value)
    assert_two_steps_are_one(name, gradient, torch.autograd.grad(again.sum(), leaf)[0])


@pytest.mark.parametrize("name", [n for n in NAMES if carms.make(n, samples=4).black_box])
def test_indices_instead_of_one_hot(name, flat):
    def of_indices(*indices):
        assert [each.shape[-1] for each in indices] == [2, 1, 1]
        return table_of(*indices)

    value = expectation(of_indices, as_groups(flat), name, 4, generator(1), one_hot=False)
    dense = expectation(f, as_groups(flat), name, 4, generator(1))
    torch.testing.assert_close(value, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["carms-s", "loorf", "straight-through", "gumbel-softmax"])
def test_bernoulli_beside_others_sees_zeros_and_ones(name):
    bits, others = logits_of(7, 2), logits_of(7, 1, 3, seed=1)
    weight = logits_of(1, 3, seed=2).detach()

    def of_bits(z, other):
        assert z.shape[1:] == (7, 2)
        return (1 + z[..., 0] - 2 * z[..., 1]) * (other * weight).sum((-2, -1))

    value = carms.make(name, samples=4).expectation(
        of_bits, (Bernoulli(logits=bits), others), generator(1)
    )
    gradients = torch.autograd.grad(value.sum(), (bits, others))
    both = torch.stack((torch.zeros_like(bits), bits), -1)
    same = carms.make(name, samples=4).expectation(
        lambda z, other: of_bits(z[..., 1], other), (both, others), generator(1)
    )
    assert torch.equal(value, same)
    for one, other in zip(gradients, torch.autograd.grad(same.sum(), (bits, others)), strict=True):
        torch.testing.assert_close(one, other)


def test_binary_estimators_take_binary_groups():
    first, second = logits_of(7, 2), logits_of(7, 1, 2, seed=1)
    value = carms.expectation(
        lambda a, b: a.sum(-1) * b[..., 0, 0], (Bernoulli(logits=first), second), "arms", 4
    )
    assert all((each != 0).any() for each in torch.autograd.grad(value.sum(), (first, second)))


def test_distributions_and_dtypes():
    first, second = logits_of(2, 3), logits_of(1, 4, seed=1).detach().float().requires_grad_()
    given = Categorical(logits=first), OneHotCategorical(logits=second)
    draw = carms.make("loorf", samples=4).sample(given)
    assert [z.dtype for z in draw.z] == [torch.float64, torch.float32]
    assert all(z.is_contiguous() for z in draw.z)
    value = carms.expectation(lambda a, b: a[..., 0, 0] + b[..., 0, 0], given)
    for leaf, gradient in zip(
        (first, second), torch.autograd.grad(value, (first, second)), strict=True
    ):
        assert gradient.dtype == leaf.dtype
        assert gradient.shape == leaf.shape


def test_one_group_is_no_group():
    table, logits = RandomTable(2, 3), logits_of(5, 2, 3)
    alone = carms.expectation(table, (logits,), generator=generator(1))
    plain = carms.expectation(table, logits, generator=generator(1))
    assert torch.equal(alone, plain)
    one, other = (torch.autograd.grad(v.sum(), logits)[0] for v in (alone, plain))
    assert torch.equal(one, other)


def test_terms_of_groups(flat):
    """A term for each group: the columns of the mask are the variables of all groups in a row."""
    weights = [logits_of(*shape, seed=5).detach() for shape in SHAPES]
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]])

    def terms(*z):
        first, second, third = (
            (each * weight).sum((-2, -1)) for each, weight in zip(z[:3], weights, strict=True)
        )
        return torch.stack((first.square(), second, second * third), -1)

    leaf = flat.clone().requires_grad_()
    truth = carms.expectation(lambda *z: terms(*z).sum(-1), as_groups(leaf), "exact")
    (gradient,) = torch.autograd.grad(truth, leaf)
    values, gradients = replicate(
        carms.make("carms-s", samples=4), terms, flat, 50_000, wrap=as_groups, terms=mask
    )
    assert values.agrees_with(truth.detach())
    assert gradients.agrees_with(gradient)


def test_compare(flat):
    groups = as_groups(flat)
    names = ["loorf", "gumbel-softmax", "exact"]
    found = carms.compare(f, groups, names, 4, 200, generator(1)).to_dict()
    assert found["exact"]["bias"] < 1e-12
    assert found["loorf"]["bias"] < 4 * found["loorf"]["standard_error"]
    assert found["loorf"]["variance"] > 0
    assert found["gumbel-softmax"]["evaluations"] == 4
    # 60 configurations, and padded categories count for none.
    assert found["exact"]["evaluations"] == 60
    sparse = carms.compare(table_of, groups, ["loorf"], 4, 200, generator(1), one_hot=False)
    alone = carms.compare(f, groups, ["loorf"], 4, 200, generator(1))
    for column in ("bias", "variance", "evaluations"):
        assert sparse.to_dict()["loorf"][column] == pytest.approx(
            alone.to_dict()["loorf"][column], rel=1e-9
        )


def test_compare_differentiates_with_respect_to_the_users_own_logits():
    first, second = logits_of(1, 2), logits_of(1, 3, seed=1)

    def inside(a, b):
        return a[..., 0, 0] * b[..., 0, 0] + first.square().sum() + second.square().sum()

    exact = carms.compare(inside, (first, second), ["exact", "loorf"], 4, 100).to_dict()
    assert exact["exact"]["bias"] < 1e-12
    assert exact["loorf"]["bias"] < 4 * exact["loorf"]["standard_error"]


def test_the_bound_takes_groups():
    groups = as_groups(logits_of(3, sum(SIZES)))
    for one_hot, weight in ((True, f), (False, table_of)):
        bound = carms.importance_bound(weight, groups, generator=generator(1), one_hot=one_hot)
        assert bound.shape == (3,)
        assert all((g != 0).any() for g in torch.autograd.grad(bound.sum(), groups))


def test_compiled():
    estimator = carms.make("carms-s", samples=4)
    first, second = logits_of(6, 2, 2), logits_of(6, 1, 3)

    def loss(a, b):
        return estimator.expectation(lambda x, y: x[..., 0].sum(-1) * y[..., 0, 0], (a, b)).sum()

    torch.compiler.reset()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(first, second).backward()
    assert first.grad.abs().sum() > 0
    assert second.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("groups", "kind", "message"),
    [
        ((), ValueError, "must hold one or more groups"),
        (((torch.zeros(1, 2),),), ValueError, "and no tuples"),
        (
            (torch.zeros(5, 1, 2), torch.zeros(1, 3)),
            ValueError,
            r"same batch shape, as in \[\*batch, D, C\]; got \[5\] and \[\]",
        ),
        (
            (torch.zeros(5, 1, 2), Bernoulli(logits=torch.zeros(4, 2))),
            ValueError,
            r"got \[5\] and \[4\]",
        ),
        ((torch.zeros(1, 2), torch.zeros(1, 1)), ValueError, "at least 2 categories"),
        ((torch.zeros(1, 2), torch.zeros(3)), ValueError, r"got shape \[3\]"),
        ((torch.zeros(1, 2), [0.0, 1.0]), TypeError, "must be a tensor or .*got list"),
        (
            (torch.zeros(1, 2), torch.full((1, 3), -torch.inf)),
            ValueError,
            "got nothing but -inf",
        ),
    ],
    ids=range(8),
)
def test_bad_groups(groups, kind, message):
    for call in (carms.expectation, carms.compare):
        with pytest.raises(kind, match=message) as caught:
            call(lambda *z: z[0][..., 0, 0], groups)
        assert caught.value.__context__ is None


def test_binary_estimators_refuse_wider_groups():
    with pytest.raises(ValueError, match="arms is for binary variables, got 3 categories"):
        carms.expectation(lambda a, b: a[..., 0, 0], (torch.zeros(1, 2), torch.zeros(1, 3)), "arms")
