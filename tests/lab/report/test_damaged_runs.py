"""Runs that are damaged, unfinished or there twice."""

import os
import subprocess
import sys

import pytest
from rich.console import Console
from written_runs import PAPER, write_good_runs, write_run

from carms.lab.cli.console import PlainConsole
from carms.lab.cli.report import Report
from carms.lab.runs.gather import gather


def test_the_same_run_twice_counts_once(tmp_path):
    directory = write_good_runs(tmp_path / "runs")
    write_run(tmp_path / "others" / "again", lines=3, estimator="loorf", **PAPER)
    runs, problems = gather([directory, tmp_path / "others", directory / "deep"])
    assert len(runs) == 6
    (problem,) = problems
    assert f"{tmp_path / 'others' / 'again'}: the same settings and seed as" in problem


def test_of_two_unfinished_runs_the_further_one_counts(tmp_path):
    for name, lines in (("a", 1), ("b", 3), ("c", 2)):
        write_run(tmp_path / name, lines=lines)
    runs, problems = gather([tmp_path])
    assert [(run.path.name, run.step) for run in runs] == [("b", 30)]
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "not the settings of a run"),
        ("config.json", "[1]", "not the settings of a run"),
        ("config.json", '{"name": "other"}', "not the settings of a run"),
        ("config.json", '{"options": [], "seed": "x"}', "seed must be int, got 'x'"),
        ("config.json", '{"options": [], "estimator": "<b>"}', "unknown estimator '<b>'"),
        ("config.json", "[" * 100_000, "not the settings of a run"),
        ("metrics.jsonl", '{"step": 10, "objec', "1 bad (line 1"),
        ("metrics.jsonl", '{"step": 10, "milliseconds": NaN}', "milliseconds is nan"),
        ("metrics.jsonl", "\udcff", "left out"),
        ("result.json", "{}", "not a result"),
        ("result.json", "nothing", "not a result"),
    ],
)
def test_damage_is_named_and_passed_over(tmp_path, capsys, name, text, message):
    write_run(tmp_path / "good", (-1.0, -2.0), dataset="digits", seed=1)
    write_run(tmp_path / "[/bad]", (-1.0, -2.0), dataset="digits")
    (tmp_path / "[/bad]" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    Report((tmp_path,), tmp_path / "report.html").run(Console(soft_wrap=True))
    said = capsys.readouterr().out
    assert str(tmp_path / "[/bad]" / name) in said
    assert message in said
    assert "left out, with reasons" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 40, "objective": 1, "milliseconds": 1.0}', "step 40 after step 40"),
        ('{"step": 30, "objective": 1, "milliseconds": 1.0}', "step 30 after step 40"),
        ('{"step": 50, "objective": 1, "milliseconds": Infinity}', "milliseconds is inf"),
        ('{"step": 50, "objective": 1.7e308, "milliseconds": 1}', r"objective is 1.7e+308"),
        ('{"step": 50, "objective": 1}', "it has no milliseconds"),
        ('{"step": 61, "objective": 1, "milliseconds": 1}', "step 61 of 60"),
        ('{"step": "x"}', "step 'x' of 60"),
        ("[]", "it is no object"),
        ("[" * 60_000, "it is nested too deeply"),
        ("x" * 70_000, "it has more than 65,536 bytes"),
    ],
)
def test_a_bad_line_of_metrics_is_left_out(tmp_path, line, message):
    write_run(tmp_path / "run", steps=60)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    (run,), (problem,) = gather([tmp_path])
    assert list(run.metrics["milliseconds"].steps) == [10, 20, 30, 40]
    assert f"bad (line 5: {message}), left out" in problem


def test_a_result_of_fewer_steps_is_none(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0))
    path = tmp_path / "run" / "result.json"
    path.write_text(path.read_text().replace('"step": 40', '"step": 30'))
    (run,), (problem,) = gather([tmp_path])
    assert run.result is None
    assert "not a result (step 30 of 40)" in problem


def test_names_of_files_need_not_be_text(tmp_path, capsys):
    path = tmp_path / os.fsdecode(b"\xff [red] $name")
    write_run(path / "good", (-1.0, -2.0), dataset="digits")
    (path / "config.json").write_text("{")
    Report((tmp_path,), tmp_path / "report.html").run(PlainConsole())
    assert r"\udcff [red] $name/config.json: not the settings" in capsys.readouterr().out
    assert r"\udcff [red] $name/good" in (tmp_path / "report.html").read_text("utf-8")


def test_a_link_to_a_run_is_left_out_with_a_line(tmp_path):
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "elsewhere", seed=1)
    (tmp_path / "runs" / "latest").symlink_to("one")
    assert gather([tmp_path / "runs"]).problems == []
    (tmp_path / "runs" / "other").symlink_to(tmp_path / "elsewhere")
    runs, problems = gather([tmp_path / "runs"])
    assert [run.path.name for run in runs] == ["one"]
    assert problems == [f"{tmp_path / 'runs' / 'other'}: a link to a run, left out"]
    assert len(gather([tmp_path / "runs" / "other"]).runs) == 1


def test_no_runs_is_one_line(tmp_path):
    command = [sys.executable, "-m", "carms", "report", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"no run in {tmp_path}: give run directories" in done.stderr
    assert "Traceback" not in done.stderr
