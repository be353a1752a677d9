"""Where uniforms fall among many categories, seen through inverse-CDF sampling."""

import itertools
import math

import pytest
import torch
from helpers import chi_square_chance, exact_circular_lift, generator

import carms
from carms.copulas import Circular, Independent
from carms.couplings import InverseCDF
from carms.sampling.partition import Blocked, Counted, Searched

# Around the size from which on categories are searched in blocks, full and ragged ones.
SIZES = [2, 255, 256, 257, 1000, 1024, 4097, 10_000]


class Fixed(Independent):
    """Gives back uniforms chosen by the test."""

    def __init__(self, u):
        super().__init__(u.shape[-1])
        self.u = u

    def points_unchecked(self, shape, generator=None, dtype=None, device=None):
        assert self.u.shape[:-1] == tuple(shape)
        return self.u.movedim(-1, 0).to(dtype)


def locate(probs, u):
    """The categories ``[K]`` in which ``u [K]`` fall, four to a draw."""
    rows = u.view(-1, 4)
    return InverseCDF(Fixed(rows)).sample(probs.expand(len(rows), -1)).T.flatten()


def random_probs(categories, dtype=torch.float64, zeros=0.3, seed=0):
    """Sums to one up to rounding; spans several orders of magnitude; a share of zeros."""
    source = generator(seed)
    logits = 2 * torch.randn(categories, generator=source, dtype=torch.float64)
    hidden = torch.rand(categories, generator=source) < zeros
    if hidden.all():
        hidden[:] = False
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("categories", SIZES)
def test_every_category_owns_its_share_of_the_interval(categories, dtype):
    probs = random_probs(categories, dtype)
    ends = probs.double().cumsum(-1)
    ends = ends / ends[-1]
    # Blocks are added up in the precision of the probabilities: their rounding may move an end.
    clear = (probs > 100 * torch.finfo(dtype).eps).nonzero().flatten()
    assert len(clear) > (probs > 0).sum() / 2
    chosen = clear[torch.randint(len(clear), (2000,), generator=generator())]
    middles = (ends - probs.double() / 2)[chosen]
    assert torch.equal(locate(probs, middles), chosen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("categories", SIZES)
def test_nothing_of_probability_zero_is_found(categories, dtype):
    probs = random_probs(categories, dtype, zeros=0.8, seed=1)
    # The ends of all intervals, and their neighbours, where rounding decides.
    ends = probs.double().cumsum(-1) / probs.double().sum()
    info = torch.finfo(torch.float64)
    chosen = ends[torch.randint(categories, (1000,), generator=generator())]
    nudged = torch.cat([chosen * (1 + k * info.eps) for k in (-2, -1, 0, 1, 2)])
    extreme = torch.tensor([info.tiny, info.eps, 1 - info.eps, 1 - info.eps / 2])
    u = torch.cat((nudged, extreme.double())).clamp(info.tiny, 1 - info.eps / 2)
    assert (probs[locate(probs, u)] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("categories", SIZES)
@pytest.mark.parametrize("only", ["first", "middle", "last"])
def test_a_single_possible_category_is_always_found(categories, dtype, only):
    place = {"first": 0, "middle": categories // 2, "last": categories - 1}[only]
    probs = torch.zeros(categories, dtype=dtype)
    probs[place] = 1
    info = torch.finfo(torch.float64)
    u = torch.tensor([info.tiny, 0.3, 0.5, 1 - info.eps / 2], dtype=torch.float64)
    assert (locate(probs, u) == place).all()
    for name in ("carms-s", "loorf", "reinforce"):
        draw = carms.make(name, samples=3).sample(probs.log().expand(5, 1, categories), generator())
        assert (draw.indices == place).all()


@pytest.mark.parametrize("categories", SIZES)
def test_only_ratios_of_probabilities_matter(categories):
    probs = random_probs(categories)
    u = torch.rand(1000, generator=generator(), dtype=torch.float64)
    # Powers of two scale without rounding.
    for scale in (2.0**-20, 2.0**10):
        assert torch.equal(locate(probs, u), locate(probs * scale, u))


@pytest.mark.parametrize("categories", [257, 1000])
def test_rows_of_a_batch_are_searched_on_their_own(categories):
    batch = torch.stack([random_probs(categories, seed=s) for s in range(6)])
    u = torch.rand(48, generator=generator(), dtype=torch.float64)
    together = InverseCDF(Fixed(u.expand(2, 3, 48))).sample(batch.view(2, 3, categories))
    assert together.shape == (48, 2, 3)
    for row, (i, j) in enumerate(itertools.product(range(2), range(3))):
        assert torch.equal(together[:, i, j], locate(batch[row], u))


@pytest.mark.parametrize("name", ["carms-s", "loorf", "reinforce"])
@pytest.mark.parametrize("categories", [256, 257, 1000, 4097, 10_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_marginals_of_many_categories(name, categories, dtype):
    probs = random_probs(categories, dtype, seed=2)
    rows = 2_000 if categories < 5000 else 500
    source, estimator = generator(3), carms.make(name, samples=4)
    counts = torch.zeros(categories, dtype=torch.float64)
    draws = 0
    for _ in range(10):
        indices = estimator.sample(probs.log().expand(rows, 1, categories), source).indices
        # Samples of one draw are correlated: count one of each.
        one = indices[draws % 4].flatten()
        counts += torch.bincount(one, minlength=categories)
        draws += one.numel()
    assert counts[probs == 0].sum() == 0
    # By turns into 20 groups, so that every block of the search has a part in each.
    groups = torch.arange(categories) % 20
    observed = torch.zeros(20, dtype=torch.float64).index_add_(0, groups, counts)
    expected = torch.zeros(20, dtype=torch.float64).index_add_(0, groups, probs.double())
    assert chi_square_chance(observed, expected * draws / expected.sum()) > 1e-6
    # And in stretches, so that a shift by one block would show.
    stretches = torch.arange(categories) * 20 // categories
    observed = torch.zeros(20, dtype=torch.float64).index_add_(0, stretches, counts)
    expected = torch.zeros(20, dtype=torch.float64).index_add_(0, stretches, probs.double())
    assert chi_square_chance(observed, expected * draws / expected.sum()) > 1e-6


@pytest.mark.parametrize("categories", [256, 257, 1000, 4097])
def test_pair_ratios_of_many_categories(categories):
    coupling = InverseCDF(Circular(5))
    probs = random_probs(categories, seed=4)
    left = (probs.cumsum(-1) - probs).tolist()
    drawn = coupling.sample(probs.expand(30, categories), generator())
    ratio = coupling.pair_ratio(probs.expand(30, categories), drawn)
    _, ratio_of_draw = coupling.draw(probs.expand(30, categories), generator())
    seen = 0
    for row, (n, m) in enumerate(itertools.combinations(range(5), 2)):
        for column in range(30):
            i, j = drawn[n, column].item(), drawn[m, column].item()
            if i == j:
                continue
            seen += 1
            pair = (left[i], probs[i].item()), (left[j], probs[j].item())
            exact = 1 / float(exact_circular_lift(5, *pair))
            assert ratio[row, column].item() == pytest.approx(exact, rel=1e-7)
            assert ratio_of_draw[row, column].item() == pytest.approx(exact, rel=1e-7)
    assert seen > 200


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_every_algorithm_finds_the_same_intervals(batch, dtype):
    probs = torch.stack([random_probs(200, dtype, seed=s) for s in range(6)])
    probs = probs[: math.prod(batch)].view(*batch, 200)
    u = torch.rand((7, *batch), generator=generator(1), dtype=torch.float64)
    counted, *others = (kind(probs).find(u) for kind in (Counted, Searched, Blocked))
    left, width, right = counted.ends()
    assert ((left <= u) & (u < right)).all()
    torch.testing.assert_close(left + width, right)
    tolerance = {"rtol": 0, "atol": 10 * torch.finfo(dtype).eps}
    for located in others:
        assert torch.equal(located.indices, counted.indices)
        for found, expected in zip(located.ends(), (left, width, right), strict=True):
            torch.testing.assert_close(found, expected, **tolerance)
    for located in (counted, *others):
        found_left, found_width = located.interval()
        assert found_width.dtype == dtype
        torch.testing.assert_close(found_left, left, **tolerance)
        torch.testing.assert_close(found_width.double(), width, **tolerance)


@pytest.mark.parametrize("kind", [Counted, Searched, Blocked])
def test_given_categories_are_where_their_points_were_found(kind):
    partition = kind(torch.stack([random_probs(200, seed=s) for s in range(6)]))
    found = partition.find(torch.rand((7, 6), generator=generator(1), dtype=torch.float64))
    given = partition.at(found.indices)
    assert torch.equal(given.indices, found.indices)
    for one, other in ((given.ends(), found.ends()), (given.interval(), found.interval())):
        assert all(map(torch.equal, one, other))
