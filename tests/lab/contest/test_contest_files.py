"""The files of the contest: what is written is read, and what is damaged is named."""

import os
from dataclasses import replace

import pytest
from small_contest import TASK

from carms.lab.contest.contest import is_contest
from carms.lab.contest.machine import note_machine, noted_machines
from carms.lab.contest.results import Result, Run, add_result, read_results

HEADER = "kind,estimator,rate,seed,seconds,error,2,4,6"


def test_results_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "made-up.csv"
    assert read_results(path, TASK) == {}
    results = [
        Result(Run("final", "loorf", 0.003, 1), 1.25, (1.0, 2.5, -3.0)),
        Result(Run("trial", "good", 2.0, 1000), 0.5, (1.0,), "diverged: inf, at step 3"),
    ]
    for result in reversed(results):
        add_result(path, TASK, result)
    assert [*read_results(path, TASK).values()] == results
    add_result(path, TASK, replace(results[0], seconds=2.0))
    assert read_results(path, TASK)[results[0].run].seconds == 2.0


def test_a_file_of_another_version_of_a_task_is_refused(tmp_path):
    path = tmp_path / "made-up.csv"
    add_result(path, TASK, Result(Run("final", "loorf", 1.0, 0), 1.0, (1.0, 2.0, 3.0)))
    with pytest.raises(ValueError, match="another version of the task"):
        read_results(path, replace(TASK, judge_every=3))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("final,loorf,1,0,much,,1,2,3", "could not convert string to float: 'much'"),
        ("final,loorf,1,0,1,,1,2", "it does not have 9 fields"),
        ("final,loorf,1,0,1,,1,2,3,4", "it does not have 9 fields"),
        ("final,loorf,1,0,1,,1,,3", "there are scores of the steps 2, 6"),
        ("trial,loorf,1,0,1,,1,,", "there are scores of the steps 2"),
        ("final,loorf,1,0,1,,1,nan,3", r"a score is not a number, or too large: \(1.0, nan, 3.0\)"),
        ("last,loorf,1,0,1,,1,2,3", "a run is a trial or final, got 'last'"),
        ("final,loorf,1,0,nan,,1,2,3", "seconds must be positive, got nan"),
        ("final,loorf,1,0,inf,,1,2,3", "seconds must be positive, got inf"),
        ("final,loorf,1,0,-5,,1,2,3", "seconds must be positive, got -5.0"),
        ("final,loorf,1,0,1,,1,2,1e308", "a score is not a number, or too large"),
        ("final,loorf,1,0,1e308,,1,2,3", "seconds must be positive, got 1e.308"),
        ("final,loorf,1,0,0,,1,2,3", "seconds must be positive, got 0.0"),
        ("final,loorf,1,0,-5,diverged,1,2,", "seconds must be positive, got -5.0"),
        ("trial,loorf,1,1000,2,,,,4", "a line above has the same run"),
        ("final,loorf,1,0,1,\udcff,1,2,3", "'utf-8' codec can't decode byte 0xff"),
        (f"final,loorf,1,0,1,{'x' * 200_000},,,", "field larger than field limit"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, line, message):
    path = tmp_path / "made-up.csv"
    good = "trial,loorf,1,1000,1,,,,3"
    text = f"{HEADER}\n{good}\n{line}\n"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=f"made-up.csv is damaged in line 3: {message}"):
        read_results(path, TASK)


@pytest.mark.parametrize("end", ["", "-22.7"])
def test_a_file_that_is_cut_off_is_damaged_in_its_last_line(tmp_path, end):
    path = tmp_path / "made-up.csv"
    path.write_text(f"{HEADER}\nfinal,loorf,1,0,1,,-22.9,-22.8,{end}")
    with pytest.raises(ValueError, match=r"made-up.csv is damaged in line 2: it is cut off"):
        read_results(path, TASK)
    path.write_text("")
    with pytest.raises(ValueError, match=r"made-up.csv is damaged in line 1: it is cut off"):
        read_results(path, TASK)


def test_lines_are_counted_as_an_editor_does(tmp_path):
    path = tmp_path / "made-up.csv"
    run = Run("final", "loorf", 1.0, 0)
    add_result(path, TASK, Result(run, 1.0, (), "RuntimeError: in\nthree\nlines"))
    path.write_text(f"{path.read_text()}final\n")
    with pytest.raises(ValueError, match="damaged in line 5: it does not have 9 fields"):
        read_results(path, TASK)


def test_a_run_that_fails_in_its_first_step_has_taken_no_time(tmp_path):
    path = tmp_path / "made-up.csv"
    result = Result(Run("final", "loorf", 1.0, 0), 0.0, (), "ValueError: of f")
    add_result(path, TASK, result)
    assert [*read_results(path, TASK).values()] == [result]


def test_a_file_of_the_same_name_makes_no_contest(tmp_path):
    (tmp_path / "digits.csv").write_text("a,b\n1,2\n")
    assert not is_contest(tmp_path)
    (tmp_path / "routing.csv").write_text("kind,estimator,rate,seed,seconds,error,7\n")
    assert is_contest(tmp_path)


def test_a_machine_is_noted_once(tmp_path):
    assert noted_machines(tmp_path) == []
    for _ in range(2):
        note_machine(tmp_path)
    assert len(noted_machines(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "it is no list of texts"),
        ("[1, 2]", "it is no list of texts"),
        ('["a machi', "Unterminated string"),
        ("[" * 200_000, "it is nested too deeply"),
        ("\udcff", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_damaged_machines_are_named(tmp_path, text, message):
    (tmp_path / "machines.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=f"machines.json is damaged: {message}"):
        noted_machines(tmp_path)


@pytest.mark.parametrize("name", ["made-up.csv", "machines.json"])
@pytest.mark.parametrize("place", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_nothing_but_a_regular_file_is_read(tmp_path, name, place):
    path = tmp_path / name
    place(path)
    with pytest.raises((OSError, ValueError), match=name):
        noted_machines(tmp_path) if path.suffix == ".json" else read_results(path, TASK)
