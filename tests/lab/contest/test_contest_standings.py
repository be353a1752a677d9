"""Standings and tables of the contest, of runs whose scores are made up."""

import math
from dataclasses import replace

import pytest
from small_contest import LOWER, SCORES, TASK, TIMES, made_up_results, made_up_times

from carms.lab.contest.results import Result, Run
from carms.lab.contest.standings import curve, make_standings
from carms.lab.contest.tables import summary_sheet, task_sheets
from carms.lab.contest.times import PARTS, Pace


@pytest.fixture
def standings():
    found = make_standings(TASK, made_up_results(SCORES), made_up_times(TIMES))
    return {each.entry.name: each for each in found}


def row_of(name, sheet):
    """The texts of the row of an estimator."""
    (row,) = (row for row in sheet.rows if row[0].text == name)
    return [field.text for field in row]


def test_leads_and_verdicts_at_equal_steps(standings):
    assert standings["good"].at_steps.lead.mean == pytest.approx(2)
    assert standings["good"].at_steps.lead.verdict == "better"
    assert standings["bad"].at_steps.lead.verdict == "worse"
    assert standings["loorf"].at_steps.lead is None
    assert standings["lost"].at_steps.lead is None


def test_a_slow_entry_is_judged_earlier_at_equal_time(standings):
    """It takes three times as long, so it had one of three judgements."""
    good, bad = standings["good"], standings["bad"]
    assert (good.pace, good.judged_at) == (Pace([3.0] * PARTS), 1)
    assert good.at_time.scores == {seed: score - 2 for seed, score in enumerate(SCORES["good"])}
    assert good.at_time.lead.verdict == "not distinguishable"
    assert (bad.pace.whole.value, bad.judged_at) == (0.5, 0.5)
    assert bad.at_time.scores == bad.at_steps.scores


@pytest.mark.parametrize(("time", "judgement"), [(1.25, 2), (1.15, 3), (5.8, 1), (6.2, 0)])
def test_the_nearest_judgement_counts_at_equal_time(time, judgement):
    times = made_up_times({**TIMES, "good": time})
    found = make_standings(TASK, made_up_results(SCORES), times)
    good = next(each for each in found if each.entry.name == "good")
    expected = None if not judgement else SCORES["good"][0] - 3 + judgement
    assert good.at_time.scores[0] == expected
    if judgement:
        assert good.judged_at == pytest.approx(time * judgement / 3)


@pytest.mark.parametrize("failing", [None, Run("trial", "good", 3.0, 1000)])
def test_an_entry_that_was_not_judged_in_time_is_last_and_has_not_failed(failing):
    results = made_up_results(SCORES)
    if failing:
        results[failing] = replace(results[failing], scores=(), error="diverged: at step 1")
    found = make_standings(TASK, results, made_up_times({**TIMES, "good": 10.0}))
    good = next(each for each in found if each.entry.name == "good")
    assert set(good.at_time.scores.values()) == {None}
    assert (good.at_time.rank.place, good.at_steps.rank.place) == (3, 1)
    at_time, _ = task_sheets(TASK, found)
    row = row_of("good", at_time)
    assert row[3:7] == ["-", "not judged in time", "-", "not judged in time"]
    summary = summary_sheet([TASK], {TASK.name: found}, "at_time")
    assert summary.headings[5] == "no score"
    assert row_of("good", summary)[2:6] == ["0", "0", "0", "1"]


@pytest.mark.parametrize(
    ("ratios", "lead", "low"),
    # The last judgement counts up to 1.2 times the time, the first one up to 6 times.
    [([0.9, 1.1], 0.5, 0.5), ([0.7, 1.5], 0.5, -0.5), ([4.0, 7.0], -1.5, -math.inf)],
)
def test_intervals_at_equal_time_reach_over_those_of_the_possible_times(ratios, lead, low):
    """All seeds have the same curve, and times are uncertain by 0.06, 0.22 and 0.82."""
    results = made_up_results({"loorf": [2.5] * 6, "good": [3.0] * 6})
    times = made_up_times(TIMES)
    times.seconds["good"] = [ratio * times.seconds["loorf"][0] for ratio in ratios * (PARTS // 2)]
    found = {each.entry.name: each for each in make_standings(TASK, results, times)}
    own = found["good"].at_time
    assert (own.lead.mean, own.lead.low, own.lead.high) == (lead, low, lead)
    places = [1 if end > 0 else 2 for end in (lead, lead, low)]
    assert [own.rank.place, own.rank.low, own.rank.high] == places
    assert found["good"].at_steps.lead.low == 0.5


def test_an_entry_that_slows_down_was_faster_when_it_was_judged():
    """It takes as long as the reference for two thirds of its steps, and four times thereafter."""
    times = made_up_times({**TIMES, "good": 1.0})
    ratios = [1.0] * (2 * PARTS // 3) + [4.0] * (PARTS - 2 * PARTS // 3)
    times.seconds["good"] = [ratio * times.seconds["loorf"][0] for ratio in ratios]
    (good,) = (
        each
        for each in make_standings(TASK, made_up_results(SCORES), times)
        if each.entry.name == "good"
    )
    assert good.pace.whole.value == sum(ratios) / PARTS
    # By its mean time the second judgement would be at 1.4.
    assert good.judged_at == pytest.approx(2 / 3, abs=0.15)
    assert good.at_time.scores[0] == SCORES["good"][0] - 1
    assert [time for time, _ in curve(TASK, good)] == [good.pace.after(k / 3) for k in (1, 2, 3)]


def test_without_times_nothing_is_compared_at_equal_time():
    found = {each.entry.name: each for each in make_standings(TASK, made_up_results(SCORES))}
    good = found["good"]
    assert (good.pace, good.judged_at, good.at_time.rank) == (None, None, None)
    assert good.at_steps.lead.verdict == "better"
    at_time, _ = task_sheets(TASK, [*found.values()])
    assert row_of("good", at_time)[2:] == ["-"] * 6
    assert curve(TASK, good) == []


def test_an_entry_without_a_time_is_not_compared_at_equal_time():
    times = made_up_times(TIMES, good="diverged")
    found = make_standings(TASK, made_up_results(SCORES), times)
    places = {each.entry.name: each.at_time.rank for each in found}
    assert (places["good"], places["loorf"].place, places["bad"].place) == (None, 1, 2)


def test_an_entry_that_fails_later_has_no_score_at_equal_time_either():
    results = made_up_results(SCORES)
    run = Run("final", "good", 2.0, 0)
    results[run] = replace(results[run], scores=(1.0, 2.0), error="diverged: at step 5")
    found = make_standings(TASK, results, made_up_times(TIMES))
    good = next(each for each in found if each.entry.name == "good")
    for place, sheet in zip((good.at_time, good.at_steps), task_sheets(TASK, found), strict=True):
        assert place.scores[0] is None
        assert place.scores[1] is not None
        assert (place.lead, place.rank.place) == (None, 3)
        assert row_of("good", sheet)[-2] == "failed"


def test_an_entry_whose_trials_are_not_over_has_not_failed():
    results = made_up_results({"loorf": SCORES["loorf"]})
    trial = Run("trial", "good", 1.0, 1000)
    results[trial] = Result(trial, 1.0, (), "diverged: at step 1")
    _, at_steps = task_sheets(TASK, make_standings(TASK, results))
    assert row_of("good", at_steps)[4:] == ["0", "-", "-", "-", "-"]


@pytest.mark.parametrize("kind", ["trial", "final"])
def test_an_entry_that_always_fails_is_last_and_counted(kind):
    results = {
        run: replace(result, scores=(), error="diverged: at step 1")
        if (run.estimator, run.kind) == ("bad", kind)
        else result
        for run, result in made_up_results(SCORES).items()
        if kind == "final" or (run.estimator, run.kind) != ("bad", "final")
    }
    # What fails at once cannot be timed.
    times = made_up_times(TIMES, bad="diverged")
    found = make_standings(TASK, results, times)
    bad = next(each for each in found if each.entry.name == "bad")
    for moment, place in (("at_time", bad.at_time), ("at_steps", bad.at_steps)):
        assert place.rank.place == 3  # shared with the one that fails with some seeds
        sheet = summary_sheet([TASK], {TASK.name: found}, moment)
        assert row_of("bad", sheet)[2:6] == ["0", "0", "0", "1"]


def test_ranks_have_failures_last(standings):
    places = {name: each.at_steps.rank.place for name, each in standings.items()}
    assert places == {"good": 1, "loorf": 2, "bad": 3, "lost": 4}


def test_ranks_are_those_of_the_scores_in_double_precision():
    """The sums of both are the same, but not those of the scores in single precision."""
    scores = {"loorf": [100.1, 3.3, 7.7, 1.0, 1.0], "good": [100.2, 3.1, 7.8, 1.0, 1.0]}
    found = make_standings(TASK, made_up_results(scores))
    places = {each.entry.name: each.at_steps.rank for each in found if each.at_steps.rank}
    assert {name: rank.place for name, rank in places.items()} == {"loorf": 1, "good": 1}


def test_each_table_is_sorted_by_its_own_ranks():
    times = made_up_times({**TIMES, "good": 10.0})
    found = make_standings(TASK, made_up_results(SCORES), times)
    at_time, at_steps = ([row[0].text for row in sheet.rows] for sheet in task_sheets(TASK, found))
    assert at_time == ["loorf", "bad", "good", "lost"]
    assert at_steps == ["good", "loorf", "bad", "lost"]


def test_an_entry_over_budget_is_compared_at_equal_time_only():
    costly = [replace(e, evaluations=9) if e.name == "good" else e for e in TASK.entries()]
    task = replace(TASK, entries=lambda: costly)
    found = make_standings(task, made_up_results(SCORES), made_up_times(TIMES))
    good = next(each for each in found if each.entry.name == "good")
    assert (good.at_steps.rank, good.at_steps.lead) == (None, None)
    assert good.at_steps.scores[0] == 3.0
    assert good.at_time.rank is not None


def test_lower_scores_lead_where_lower_is_better():
    results = made_up_results(SCORES)
    # The rates of trials are as far from 2 as they can be.
    flipped = {
        run: replace(result, scores=tuple(-score for score in result.scores))
        for run, result in results.items()
    }
    found = {each.entry.name: each for each in make_standings(LOWER, flipped)}
    assert found["good"].at_steps.lead.mean == pytest.approx(2)
    assert found["good"].at_steps.rank.place == 1


def test_only_seeds_that_all_have_are_ranked():
    results = made_up_results(SCORES)
    del results[Run("final", "good", 2.0, 5)]
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    # The failure with seed 5 is among what is left out.
    assert found["lost"].at_steps.rank.place == 1
    assert found["good"].at_steps.lead.seeds == 5


def test_an_entry_with_few_seeds_leaves_the_ranks_of_the_others_alone():
    results = made_up_results({**SCORES, "bad": SCORES["bad"][:1]})
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    assert found["bad"].at_steps.rank is None
    assert found["lost"].at_steps.rank.place == 3


def test_a_rate_at_the_end_of_those_tried_is_marked():
    task = replace(TASK, rates=(1.0, 2.0))
    results = {run: each for run, each in made_up_results(SCORES).items() if run.rate < 3}
    _, at_steps = task_sheets(task, make_standings(task, results))
    assert at_steps.rows[0][3].text == "2 (highest)"


def test_without_the_reference_nothing_is_compared():
    results = made_up_results({"good": SCORES["good"]})
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    assert found["good"].at_steps.rank is None
    assert found["good"].pace is None


def test_curves_go_over_time(standings):
    points = curve(TASK, standings["bad"])
    assert [time for time, _ in points] == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert [score for _, score in points] == [1.0, 2.0, 3.0]


def test_the_table_of_a_task_says_what_is_known(standings):
    at_time, rows = (
        {row[0].text: [field.text for field in row] for row in sheet.rows}
        for sheet in task_sheets(TASK, [*standings.values()])
    )
    assert rows["good"][5:9] == ["5.5 ± 1.9", "+2 (+2 to +2)", "better", "1 (1 to 2)"]
    assert rows["loorf"][7] == "reference"
    assert rows["lost"][4:8] == ["6, 1 failed", "failed", "-", "failed"]
    assert at_time["good"][2:5] == ["3.00 (3.00 to 3.00)", "1.00", "3.5 ± 1.9"]
    assert at_time["good"][5:7] == ["+0 (+0 to +0)", "not distinguishable"]
    assert [*rows] == ["good", "loorf", "bad", "lost"]


def test_the_summary_counts_verdicts(standings):
    sheet = summary_sheet([TASK], {TASK.name: [*standings.values()]}, "at_steps")
    rows = {row[0].text: [field.text for field in row[2:]] for row in sheet.rows}
    assert rows["good"] == ["1", "0", "0", "0", "1 (1 to 2)"]
    assert rows["bad"][:4] == ["0", "0", "1", "0"]
    assert rows["lost"][:4] == ["0", "0", "0", "1"]
    assert rows["loorf"][:4] == ["-", "-", "-", "-"]
    assert sheet.rows[0][0].text == "good"
