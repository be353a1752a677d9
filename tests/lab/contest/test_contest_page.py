"""Standings, tables and pages of the contest, of runs whose scores are made up."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from small_contest import LOWER, TASK

from carms.lab.cli import contest as command
from carms.lab.cli.report import Report
from carms.lab.cli.sweep import Sweep
from carms.lab.contest import contest, running
from carms.lab.contest.results import Result, Run, read_results
from carms.lab.contest.standings import curve, make_standings
from carms.lab.contest.tables import summary_sheet, task_sheets
from carms.lab.sweep.jobs import Outcome


def made_up_results(scores, seconds):
    """Trials that choose rate 2, and final runs with these scores, by estimator."""
    results = []
    for name, own in scores.items():
        for rate in TASK.rates:
            for seed in (1000, 1001):
                quality = -abs(rate - 2)
                results.append(Result(Run("trial", name, rate, seed), 1.0, (quality,)))
        for seed, last in enumerate(own):
            run = Run("final", name, 2.0, seed)
            failed = last is None
            values = () if failed else (last - 2, last - 1, last)
            error = "diverged: at step 1" if failed else ""
            results.append(Result(run, seconds[name], values, error))
    return {result.run: result for result in results}


SCORES = {
    "loorf": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "good": [3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "bad": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "lost": [9.0, 9.0, 9.0, 9.0, 9.0, None],
}
SECONDS = {"loorf": 6.0, "good": 18.0, "bad": 3.0, "lost": 6.0}


@pytest.fixture
def standings():
    found = make_standings(TASK, made_up_results(SCORES, SECONDS))
    return {each.entry.name: each for each in found}


def test_leads_and_verdicts_at_equal_steps(standings):
    assert standings["good"].at_steps.lead.mean == pytest.approx(2)
    assert standings["good"].at_steps.lead.verdict == "better"
    assert standings["bad"].at_steps.lead.verdict == "worse"
    assert standings["loorf"].at_steps.lead is None
    assert standings["lost"].at_steps.lead is None


def test_a_slow_entry_is_judged_earlier_at_equal_time(standings):
    """It takes three times as long, so it had one of three judgements."""
    good, bad = standings["good"], standings["bad"]
    assert (good.time, good.judged_at) == (3, 1)
    assert good.at_time.scores == {seed: score - 2 for seed, score in enumerate(SCORES["good"])}
    assert good.at_time.lead.verdict == "not distinguishable"
    assert (bad.time, bad.judged_at) == (0.5, 0.5)
    assert bad.at_time.scores == bad.at_steps.scores


@pytest.mark.parametrize(("seconds", "judgement"), [(7.9, 2), (7.1, 3), (35.0, 1), (37.0, 0)])
def test_the_nearest_judgement_counts_at_equal_time(seconds, judgement):
    found = make_standings(TASK, made_up_results(SCORES, {**SECONDS, "good": seconds}))
    good = next(each for each in found if each.entry.name == "good")
    expected = None if not judgement else SCORES["good"][0] - 3 + judgement
    assert good.at_time.scores[0] == expected
    if judgement:
        assert good.judged_at == pytest.approx(seconds / 6 * judgement / 3)


def test_an_entry_that_was_not_judged_in_time_is_last_at_equal_time():
    found = make_standings(TASK, made_up_results(SCORES, {**SECONDS, "good": 60.0}))
    good = next(each for each in found if each.entry.name == "good")
    assert set(good.at_time.scores.values()) == {None}
    assert (good.at_time.rank.place, good.at_steps.rank.place) == (3, 1)
    at_time, _ = task_sheets(TASK, found)
    (row,) = (row for row in at_time.rows if row[0].text == "good")
    assert row[2].text == "-"
    assert row[3].text == "not judged in time"


def test_an_entry_that_fails_later_has_its_score_at_equal_time():
    results = made_up_results(SCORES, SECONDS)
    run = Run("final", "good", 2.0, 0)
    results[run] = replace(results[run], scores=(1.0, 2.0), error="diverged: at step 5")
    good = next(each for each in make_standings(TASK, results) if each.entry.name == "good")
    assert good.at_time.scores[0] == 1.0
    assert good.at_steps.scores[0] is None


@pytest.mark.parametrize("kind", ["trial", "final"])
def test_an_entry_that_always_fails_is_last_and_counted(kind):
    results = {
        run: replace(result, scores=(), error="diverged: at step 1")
        if (run.estimator, run.kind) == ("bad", kind)
        else result
        for run, result in made_up_results(SCORES, SECONDS).items()
        if kind == "final" or (run.estimator, run.kind) != ("bad", "final")
    }
    found = make_standings(TASK, results)
    bad = next(each for each in found if each.entry.name == "bad")
    for moment, place in (("at_time", bad.at_time), ("at_steps", bad.at_steps)):
        assert place.rank.place == 3  # shared with the one that fails with some seeds
        sheet = summary_sheet([TASK], {TASK.name: found}, moment)
        (row,) = (row for row in sheet.rows if row[0].text == "bad")
        assert [field.text for field in row[1:5]] == ["0", "0", "0", "1"]


def test_ranks_have_failures_last(standings):
    places = {name: each.at_steps.rank.place for name, each in standings.items()}
    assert places == {"good": 1, "loorf": 2, "bad": 3, "lost": 4}


def test_an_entry_over_budget_is_compared_at_equal_time_only():
    costly = [replace(e, evaluations=9) if e.name == "good" else e for e in TASK.entries()]
    task = replace(TASK, entries=lambda: costly)
    found = make_standings(task, made_up_results(SCORES, SECONDS))
    good = next(each for each in found if each.entry.name == "good")
    assert (good.at_steps.rank, good.at_steps.lead) == (None, None)
    assert good.at_steps.scores[0] == 3.0
    assert good.at_time.rank is not None


def test_lower_scores_lead_where_lower_is_better():
    results = made_up_results(SCORES, SECONDS)
    # The rates of trials are as far from 2 as they can be.
    flipped = {
        run: replace(result, scores=tuple(-score for score in result.scores))
        for run, result in results.items()
    }
    found = {each.entry.name: each for each in make_standings(LOWER, flipped)}
    assert found["good"].at_steps.lead.mean == pytest.approx(2)
    assert found["good"].at_steps.rank.place == 1


def test_only_seeds_that_all_have_are_ranked():
    results = made_up_results(SCORES, SECONDS)
    del results[Run("final", "good", 2.0, 5)]
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    # The failure with seed 5 is among what is left out.
    assert found["lost"].at_steps.rank.place == 1
    assert found["good"].at_steps.lead.seeds == 5


def test_an_entry_with_few_seeds_leaves_the_ranks_of_the_others_alone():
    results = made_up_results({**SCORES, "bad": SCORES["bad"][:1]}, SECONDS)
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    assert found["bad"].at_steps.rank is None
    assert found["lost"].at_steps.rank.place == 3


def test_a_rate_at_the_end_of_those_tried_is_marked():
    task = replace(TASK, rates=(1.0, 2.0))
    results = {run: each for run, each in made_up_results(SCORES, SECONDS).items() if run.rate < 3}
    _, at_steps = task_sheets(task, make_standings(task, results))
    assert at_steps.rows[0][2].text == "2 (highest)"


def test_without_the_reference_nothing_is_compared():
    results = made_up_results({"good": SCORES["good"]}, SECONDS)
    found = {each.entry.name: each for each in make_standings(TASK, results)}
    assert found["good"].at_steps.rank is None
    assert found["good"].time is None


def test_curves_go_over_time(standings):
    assert curve(TASK, standings["loorf"]) == [(2.0, 1.5), (4.0, 2.5), (6.0, 3.5)]


def test_the_table_of_a_task_says_what_is_known(standings):
    at_time, rows = (
        {row[0].text: [field.text for field in row] for row in sheet.rows}
        for sheet in task_sheets(TASK, [*standings.values()])
    )
    assert rows["good"][4:8] == ["5.5 ± 1.9", "+2 (+2 to +2)", "better", "1 (1 to 2)"]
    assert rows["loorf"][6] == "reference"
    assert rows["lost"][3:7] == ["6, 1 failed", "failed", "-", "failed"]
    assert at_time["good"][1:4] == ["3.00", "1.00", "3.5 ± 1.9"]
    assert at_time["good"][4:6] == ["+0 (+0 to +0)", "not distinguishable"]
    assert [*rows] == ["good", "loorf", "bad", "lost"]


def test_the_summary_counts_verdicts(standings):
    sheet = summary_sheet([TASK], {TASK.name: [*standings.values()]}, "at_steps")
    rows = {row[0].text: [field.text for field in row[1:]] for row in sheet.rows}
    assert rows["good"] == ["1", "0", "0", "0", "1 (1 to 2)"]
    assert rows["bad"][:4] == ["0", "0", "1", "0"]
    assert rows["lost"][:4] == ["0", "0", "0", "1"]
    assert rows["loorf"][:4] == ["-", "-", "-", "-"]
    assert sheet.rows[0][0].text == "good"


@pytest.fixture
def made_up_tasks(monkeypatch):
    """The contest has two tasks, one of which nobody runs."""
    tasks = {TASK.name: TASK, LOWER.name: LOWER}
    for module in (command, contest, running):
        monkeypatch.setattr(module, "TASKS", tasks)

    def inline(self):
        def execute(work, jobs):
            for job in jobs:
                yield Outcome(job, work(job.settings, job.path))
                yield None

        return execute

    monkeypatch.setattr(Sweep, "_executor", inline)


def output(run):
    console = Console(file=io.StringIO(), width=200)
    run.run(console)
    return console.file.getvalue()


def test_from_the_sweep_to_the_page(made_up_tasks, tmp_path):
    out = tmp_path / "results"
    dry = output(Sweep("contest/made-up", out, dry_run=True))
    assert "0 of 48 runs are there" in dry
    assert re.search("absent +not applicable, it is not for this", dry)
    assert re.search(r"loorf +12 runs of 0\.0 seconds, 4 evaluations a step", dry)
    assert "made-up: 0.0 seconds on one core\n" in dry
    assert not out.exists()
    output(Sweep("contest/made-up", out))
    results = read_results(out / "made-up.csv", TASK)
    assert len(results) == 42
    assert "42 of 48 runs are there" in output(Sweep("contest/made-up", out))

    page = tmp_path / "page.md"
    output(Report((out,), page, "markdown"))
    text = page.read_text()
    assert f"carms sweep contest --out {out}" in text
    assert f"carms report {out} --format markdown --out {page}" in text
    assert "- absent: it is not for this\n" in text
    assert "- lost, trial run at rate 1 with seed 1001: diverged" in text
    assert "failed at every rate" in text
    assert "- lower: it was not run\n" in text
    assert "- made-up:" not in text.partition("## What is missing")[2].partition("##")[0]
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")

    html = tmp_path / "page.html"
    output(Report((out,), html))
    assert html.read_text().count("<table>") == 4
    assert "data:image/png;base64," in html.read_text()
    with pytest.raises(ValueError, match="html or markdown, got 'csv'"):
        output(Report((out,), html, "csv"))


def test_what_is_missing_is_listed(made_up_tasks, tmp_path):
    results = made_up_results({"loorf": [1.0], "good": [2.0]}, SECONDS)
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    found = contest.read_contest(tmp_path)
    assert found.missing() == [
        "made-up: 12 trials and 10 final runs, and the final runs of entries without a rate",
        "lower: it was not run",
    ]


def test_a_dry_run_needs_no_directory(made_up_tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "0 of 48 runs are there" in output(Sweep("contest/made-up", dry_run=True))
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match="--out DIR"):
        output(Sweep("contest/made-up"))


def test_a_task_without_images_says_how_to_get_them(made_up_tasks, tmp_path, monkeypatch):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path / "none"))
    monkeypatch.setitem(command.TASKS, "made-up", replace(TASK, dataset="dynamic-mnist"))
    said = output(Sweep("contest/made-up", tmp_path, dry_run=True))
    assert "made-up: left out, no images: carms data fetch dynamic-mnist\n" in said


def test_an_unknown_task_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"tasks of the contest are features, .*, got 'chess'"):
        Sweep("contest/chess", tmp_path).run(Console())


def test_a_page_of_trials_alone_compares_nothing(made_up_tasks, tmp_path):
    run = Run("trial", "loorf", 1.0, 1000)
    running.add_result(tmp_path / "made-up.csv", TASK, Result(run, 1.0, (1.0,)))
    page = tmp_path / "page.md"
    output(Report((tmp_path,), page, "markdown"))
    text = page.read_text()
    assert "All tasks" not in text
    assert "page.png" not in text
    assert "## made-up" not in text
    assert "- made-up: 23 trials and 0 final runs, and the final runs of entries" in text
