"""From the commands of the contest to its pages, of runs whose scores are made up."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console
from small_contest import SCORES, TASK, TIMES, made_up_results, made_up_times, output
from written_runs import write_run

from carms.lab.cli import contest as command
from carms.lab.cli.plot import Plot
from carms.lab.cli.report import Report
from carms.lab.cli.sweep import Sweep
from carms.lab.contest import contest, picture, running
from carms.lab.contest.machine import noted_machines
from carms.lab.contest.picture import SPARE, inks_of_panels
from carms.lab.contest.results import Result, Run, read_results
from carms.lab.contest.times import read_times, write_times


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
    (machine,) = noted_machines(out)
    times = read_times(out, TASK)
    assert {*times.seconds} == {"loorf", "good", "bad", "lost"}
    again = output(Sweep("contest/made-up", out))
    assert "42 of 42 runs are there" in again
    assert "times of all entries" not in again
    assert read_times(out, TASK) == times
    dry = output(Sweep("contest/made-up", out, dry_run=True))
    assert dry.splitlines()[0] == "made-up: 42 of 42 runs are there"
    assert "lost" not in dry

    page = tmp_path / "page.md"
    output(Report((out,), page, "markdown"))
    text = page.read_text()
    assert f"carms sweep contest --out {out}" in text
    assert f"carms report {out} --format markdown --out {page}" in text
    assert "- absent: it is not for this\n" in text
    assert "- lost, trial run at rate 1 with seed 1001: diverged" in text
    assert "failed at every rate" in text
    assert "- lower: it was not run\n" in text
    assert f"- {machine}: times of steps of made-up\n" in text
    assert "- made-up:" not in text.partition("## What is missing")[2].partition("##")[0]
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")

    with pytest.raises(ValueError, match=f"{out} is a contest: carms report draws it"):
        output(Plot((out,), tmp_path / "curves.png"))

    html = tmp_path / "page.html"
    output(Report((out,), html))
    assert html.read_text().count("<table>") == 5
    assert '<a href="#made-up">made-up</a>' in html.read_text()
    assert '<section id="made-up">\n<h2>made-up</h2>' in html.read_text()
    assert "<h3>Not applicable</h3>\n<ul><li>absent: it is not for this</li></ul>" in (
        html.read_text()
    )
    for written in (text, html.read_text()):
        assert "6 steps, 4 evaluations of f for a step, rates 1, 2, 3, 2 trials of each" in written
    assert "data:image/png;base64," in html.read_text()
    with pytest.raises(ValueError, match="html or markdown, got 'csv'"):
        output(Report((out,), tmp_path / "page.csv"))


def test_a_task_that_another_process_runs_is_left_to_it(made_up_tasks, tmp_path):
    code = (
        "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
    )
    code += "print(flush=True); input()"
    command = [sys.executable, "-c", code, tmp_path / "made-up.running.lock"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        other.stdout.readline()
        told = output(Sweep("contest", tmp_path))
        other.communicate(b"\n")
    assert "made-up: another process runs it\n" in told
    assert not (tmp_path / "made-up.csv").exists()
    assert (tmp_path / "lower.csv").exists()
    output(Sweep("contest", tmp_path))
    assert (tmp_path / "made-up.csv").exists()


@pytest.mark.parametrize("name", ["page.md", "page.html"])
def test_texts_of_the_files_are_no_markup(made_up_tasks, tmp_path, name):
    results = made_up_results({"loorf": [1.0], "good": [2.0]})
    run = Run("final", "good", 2.0, 1)
    results[run] = Result(run, 1.0, (), "ValueError: <b>of f</b>\n\n# [here](x) \x1b[31m")
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    (tmp_path / "machines.json").write_text('["<i>fast</i> \\ud800"]')
    page = tmp_path / name
    output(Report((tmp_path,), page))
    text = page.read_text()
    assert "ValueError: &lt;b&gt;of f&lt;/b&gt;" in text
    assert "&lt;i&gt;fast&lt;/i&gt;" in text
    if name == "page.md":
        assert r"&lt;/b&gt; \# \[here\](x)" in text
    assert "\x1b" not in text


def test_names_with_spaces_are_quoted_on_the_page(made_up_tasks, tmp_path):
    folder = tmp_path / "my results"
    for result in made_up_results({"loorf": [1.0]}).values():
        running.add_result(folder / "made-up.csv", TASK, result)
    page = tmp_path / "my page.md"
    output(Report((folder,), page, "markdown"))
    assert f"    carms sweep contest --out '{folder}'\n" in page.read_text()
    assert "](my%20page.png)\n" in page.read_text()


def test_the_contest_and_runs_are_not_reported_together(made_up_tasks, tmp_path):
    folder, page = tmp_path / "results", tmp_path / "page.md"
    write_run(folder / "below" / "run")
    write_run(tmp_path / "run")
    # Without results of the contest this is a directory of runs.
    assert "1 run, 0 finished" in output(Report((folder,), page, "markdown"))
    for result in made_up_results({"loorf": [1.0]}).values():
        running.add_result(folder / "made-up.csv", TASK, result)
    said = output(Report((folder,), page, "markdown"))
    assert f"1 run beside the contest in {folder}: left out" in said
    for directories in ((folder, tmp_path / "run"), (tmp_path / "run", folder)):
        with pytest.raises(ValueError, match=f"{folder} is a contest: report it by itself"):
            output(Report(directories, page, "markdown"))


def winners_of(found):
    ((task, reference, *names, _),) = found.winners().rows
    assert (task.text, reference.text) == ("made-up", "loorf")
    return [field.text for field in names]


def test_nothing_is_said_of_winners_with_few_seeds(made_up_tasks, tmp_path):
    results = made_up_results({"loorf": [1.0] * 3, "good": [2.0] * 3})
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    write_times(tmp_path, TASK, made_up_times(TIMES))
    found = contest.read_contest(tmp_path)
    assert winners_of(found) == ["too few seeds yet"] * 4
    for sheet in found.sheets(TASK):
        assert "too few seeds" in {field.text for row in sheet.rows for field in row}


def test_bias_is_shown(made_up_tasks, tmp_path, monkeypatch):
    results = made_up_results(SCORES)
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    found = contest.read_contest(tmp_path)
    assert winners_of(found) == ["no times yet", "none", "no times yet", "good"]
    write_times(tmp_path, TASK, made_up_times(dict.fromkeys(SCORES, 1.0)))
    found = contest.read_contest(tmp_path)
    assert winners_of(found) == ["none", "none", "good", "good"]
    for sheet in (*found.summaries(), *found.sheets(TASK)):
        assert sheet.headings[:2] == ["estimator", "bias"]
        marks = {row[0].text: row[1].text for row in sheet.rows}
        assert marks == {"loorf": "", "good": "biased", "bad": "", "lost": ""}
    # An unbiased one has a colour, however many biased ones are better.
    monkeypatch.setattr(picture, "COLOURED", 1)
    assert picture.coloured_names(TASK, found.standings["made-up"]) == ["loorf", "good", "bad"]


def test_files_that_only_have_the_name_of_results_are_no_contest(made_up_tasks, tmp_path):
    results = made_up_results({"loorf": [1.0]})
    for result in results.values():
        running.add_result(tmp_path / "results" / "made-up.csv", TASK, result)
    assert contest.is_contest(tmp_path / "results")
    assert not contest.is_contest(tmp_path / "results" / "made-up.csv")
    (tmp_path / "made-up.csv").symlink_to(tmp_path / "results" / "made-up.csv")
    assert not contest.is_contest(tmp_path)


def test_what_is_missing_is_listed(made_up_tasks, tmp_path):
    results = made_up_results({"loorf": [1.0], "good": [2.0]})
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    found = contest.read_contest(tmp_path)
    assert found.missing() == [
        "made-up: 12 trials, and final runs after all trials",
        "made-up: times of steps",
        "lower: it was not run",
    ]
    # Of a contest with fewer entries.
    write_times(tmp_path, TASK, made_up_times({"loorf": 1.0, "good": 2.0}))
    assert "made-up: times of steps" in contest.read_contest(tmp_path).missing()
    write_times(tmp_path, TASK, made_up_times(TIMES))
    assert "made-up: times of steps" not in contest.read_contest(tmp_path).missing()


def test_runs_that_are_not_in_the_plan_are_left_out_and_counted(made_up_tasks, tmp_path):
    results = made_up_results({"loorf": SCORES["loorf"], "good": SCORES["good"]})
    planned = len(results)
    others = [Run("final", "good", 3.0, seed) for seed in range(TASK.seeds)]
    others += [Run("final", "unknown", 2.0, 0), Run("final", "good", 2.0, TASK.seeds)]
    results |= {run: Result(run, 3600.0, (9.0, 9.0, 9.0)) for run in others}
    for result in results.values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    said = output(Sweep("contest/made-up", tmp_path, dry_run=True))
    told = (
        f"made-up: {planned} of 48 runs are there, 8 of other estimators, rates or seeds are left"
    )
    assert told in said
    assert re.search(r"good +0 runs of", said)
    found = contest.read_contest(tmp_path)
    assert "made-up: 8 runs of other estimators, rates or seeds, left out" in (
        found.machines_and_hours()
    )
    assert f"made-up: {planned} runs, 0.0 hours in training steps" in found.machines_and_hours()
    (good,) = (each for each in found.standings["made-up"] if each.entry.name == "good")
    assert [*good.at_steps.scores.values()] == SCORES["good"]


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
    assert "- made-up: 23 trials, and final runs after all trials\n" in text


def test_colours_that_look_alike_are_not_in_one_panel():
    """The two have greens of their own."""
    inks = inks_of_panels([["loorf", "disarm", "carms-g"]])
    assert picture._distance(inks["disarm"], inks["carms-g"]) > picture.ALIKE


def test_notes_on_results_are_shown(made_up_tasks, tmp_path):
    for result in made_up_results({"loorf": [1.0]}).values():
        running.add_result(tmp_path / "made-up.csv", TASK, result)
    page = tmp_path / "page.md"
    output(Report((tmp_path,), page, "markdown"))
    assert "earlier versions" not in page.read_text()
    (tmp_path / "limits.json").write_text('["Rows of good are old."]')
    output(Report((tmp_path,), page, "markdown"))
    assert "## Results of earlier versions\n\n- Rows of good are old.\n" in page.read_text()


def test_an_estimator_has_one_colour_in_all_panels():
    names = [f"estimator {k}" for k in range(12)]
    panels = [["reference", *names[start : start + 5]] for start in range(8)]
    inks = inks_of_panels(panels)
    assert inks["reference"] == "#000000"
    assert all(len({inks[name] for name in panel}) == 6 for panel in panels)
    # More names than colours share some, and none is without.
    crowd = [f"estimator {k}" for k in range(len(SPARE) + 9)]
    assert set(inks_of_panels([["reference", *crowd]])) == {"reference", *crowd}
