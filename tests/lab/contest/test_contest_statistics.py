"""Statistics of the contest, on cases whose answers are known."""

import itertools
import math
import statistics

import pytest
import torch

from carms.lab.contest.rules import RULES
from carms.lab.contest.statistics import (
    Rank,
    _resampled_means,
    estimate_mean,
    paired_difference,
    ranks,
)
from carms.lab.contest.times import PARTS


def test_a_clear_lead_is_better_and_its_opposite_worse():
    leads = torch.tensor([0.9, 1.0, 1.1, 1.0, 1.2, 0.8])
    found, opposite = paired_difference(leads), paired_difference(-leads)
    assert found.mean == pytest.approx(1.0)
    assert found.verdict == "better"
    assert opposite.verdict == "worse"
    assert (opposite.low, opposite.high) == pytest.approx((-found.high, -found.low))


def test_a_lead_around_zero_is_not_distinguishable():
    assert paired_difference(torch.tensor([-1.0, 1.0, -2.0, 2.0, 0.5])).verdict == (
        "not distinguishable"
    )


def test_the_same_lead_with_every_seed_has_an_interval_without_width():
    found = paired_difference(torch.full((5,), 0.25))
    assert (found.low, found.mean, found.high) == (0.25, 0.25, 0.25)
    assert found.verdict == "better"


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_few_seeds_tell_nothing(seeds):
    assert paired_difference(torch.ones(seeds)).verdict == "too few seeds"


def test_more_seeds_than_can_be_listed_are_refused():
    with pytest.raises(ValueError, match="at most 10 seeds can be compared, got 11"):
        paired_difference(torch.ones(11))


def test_the_interval_is_that_of_all_ordered_resamples():
    leads = torch.tensor([0.3, -0.1, 0.4, 0.2, 0.9], dtype=torch.float64)
    means = sorted(sum(draw) / 5 for draw in itertools.product(leads.tolist(), repeat=5))
    # Student's t at 0.975 with four degrees of freedom, expanded by the root of 5 / 4.
    tail = statistics.NormalDist().cdf(-(1.25**0.5) * 2.776445)
    found = paired_difference(leads)
    ends = means[math.ceil(tail * len(means)) - 1], means[math.ceil((1 - tail) * len(means)) - 1]
    assert (found.low, found.high) == pytest.approx(ends)


def test_one_seed_has_no_interval():
    found = paired_difference(torch.ones(1))
    assert (found.low, found.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(("seeds", "one_in"), [(10, 18), (5, 12)])
def test_equals_are_told_apart_as_rarely_as_the_rules_say(seeds, one_in):
    stream = torch.Generator().manual_seed(0)
    samples = torch.randn(600, seeds, generator=stream, dtype=torch.float64)
    told = [paired_difference(sample).verdict != "not distinguishable" for sample in samples]
    share, error = sum(told) / len(told), (one_in - 1) ** 0.5 / one_in / len(told) ** 0.5
    # With plain percentiles of the bootstrap it is one in ten and one in five.
    assert share == pytest.approx(1 / one_in, abs=3 * error)
    words = {18: "one in eighteen", 12: "one in twelve"}
    assert words[one_in] in RULES["Verdict"]


def test_the_interval_is_that_of_t_for_normal_values():
    stream = torch.Generator().manual_seed(1)
    values = torch.randn(10, generator=stream, dtype=torch.float64)
    half = 2.262 * values.std().item() / 10**0.5
    found = paired_difference(values)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.07)


def test_intervals_are_the_same_every_time():
    leads = torch.randn(10, generator=torch.Generator().manual_seed(2))
    first = paired_difference(leads)
    torch.rand(1)
    assert paired_difference(leads) == first
    assert paired_difference(leads + 1) != first


def test_ranks_of_entries_that_never_overlap():
    scores = torch.tensor([[1.0, 1.2, 1.1], [3.0, 3.3, 3.1], [2.0, 2.2, 2.1]])
    assert ranks(scores) == [Rank(3, 3, 3), Rank(1, 1, 1), Rank(2, 2, 2)]


def test_ranks_of_equal_entries_are_shared():
    assert ranks(torch.ones(3, 4)) == [Rank(1, 1, 1)] * 3


def test_ranks_of_entries_that_only_chance_tells_apart_are_wide():
    wins = torch.tensor([1.0, -1.0] * 5)
    assert ranks(torch.stack((wins, -wins))) == [Rank(1, 1, 2)] * 2


def test_pairing_sees_a_small_lead_behind_large_differences_of_seeds():
    """The seeds differ by much, the entries by little, and always in the same direction."""
    seeds = torch.linspace(0, 100, 10)
    assert ranks(torch.stack((seeds, seeds + 0.1))) == [Rank(2, 2, 2), Rank(1, 1, 1)]


def test_a_failed_run_ranks_last():
    scores = torch.tensor([[1.0, 1.0, 1.0], [5.0, 5.0, -math.inf], [-math.inf] * 3])
    found = ranks(scores)
    assert found[0] == Rank(1, 1, 2)
    assert (found[1].place, found[1].low) == (2, 1)
    assert found[2].place == 2


def test_means_are_those_of_each_resample():
    values = torch.tensor([5.0, 2.0, 7.0, 3.0], dtype=torch.float64)
    draws = [*itertools.combinations_with_replacement(values.tolist(), 4)]
    assert _resampled_means(values).tolist() == [statistics.mean(draw) for draw in draws]


def test_the_mean_of_a_resample_with_a_failure_is_minus_infinity():
    values = torch.tensor([[-math.inf, -math.inf], [3.0, -math.inf]])
    assert _resampled_means(values)[:, 0].tolist() == [-math.inf, -math.inf, 3.0]
    assert _resampled_means(values)[:, 1].tolist() == [-math.inf] * 3


def test_the_interval_of_a_mean_has_it_as_often_as_it_says():
    stream = torch.Generator().manual_seed(4)
    samples = torch.randn(2000, PARTS, generator=stream).tolist()
    inside = [found.low <= 0 <= found.high for found in map(estimate_mean, samples)]
    assert sum(inside) / len(inside) == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 2000) ** 0.5)


def test_an_interval_that_ends_at_zero_but_for_rounding_tells_nothing_apart():
    fifths = torch.tensor([-3, -8, -3, 3, 0, -6, -5, -10, 2, 0], dtype=torch.float64)
    found = paired_difference(fifths * 0.2)
    assert found.high == 0
    assert found.verdict == "not distinguishable"


def test_ranks_do_not_depend_on_the_rounding_of_decimals():
    stream = torch.Generator().manual_seed(3)
    thousandths = torch.randint(-23_003, -22_997, (6, 10), generator=stream).double()
    assert ranks(thousandths / 1000) == ranks(thousandths)
