"""How far runs are, and how long they will take."""

import json

import pytest
from rich.console import Console

from carms.lab.cli.sweep import _plan, _time_left
from carms.lab.runs.metrics import last_line
from carms.lab.runs.progress import reached
from carms.lab.runs.settings import Settings
from carms.lab.sweep.jobs import Job
from carms.lab.train import forecast

LINE = json.dumps({"step": 60, "objective": -1.5, "milliseconds": 2.5})


def test_the_last_whole_line_of_metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_line(tmp_path, 1000) == {}
    path.write_text('{"step": 1')
    assert last_line(tmp_path, 1000) == {}
    numbers = {"objective": -1.5, "milliseconds": 2.5}
    lines = [json.dumps({"step": step, **numbers, "filler": "x" * 100}) for step in range(1, 1001)]
    path.write_text("\n".join(lines) + '\n{"step": 1001, "obj')
    assert last_line(tmp_path, 1000) == {"step": 1000, **numbers}
    path.write_text('{"step": 0, "reward": 0.5, "solved": 0}\n')
    assert last_line(tmp_path, 1000) == {}
    assert last_line(tmp_path, 1000, ("reward",)) == {"step": 0, "reward": 0.5}


@pytest.mark.parametrize(
    "last",
    ["[]", '{"step": "x"}', '{"step": 60, "objective": 1e999}', "x" * 5000, "x" * 100_000, "\0"],
    ids=range(6),
)
def test_a_bad_line_of_metrics_does_not_stop_a_sweep(tmp_path, last):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text(f"{LINE}\n{last}\n")
    now = reached(tmp_path, Settings(steps=100))
    assert now.state == "begun"
    # Before 64 kB of something else nothing is looked for.
    assert now.step == (0 if len(last) == 100_000 else 60)


def test_a_directory_that_cannot_be_does_not_stop_a_sweep(tmp_path):
    assert reached(tmp_path / ("x" * 300), Settings()).state == "waiting"


@pytest.mark.parametrize("result", ["", "[]", "{}", '{"step": 100}'], ids=range(4))
def test_what_is_no_result_does_not_count_as_finished(tmp_path, result):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "result.json").write_text(result)
    assert reached(tmp_path, Settings(steps=100)).state == "begun"


def test_time_left_is_of_the_steps_that_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr("carms.lab.train.forecast.predicted_seconds", lambda kind: (0.5, 7.0))
    fresh, begun = (Job(Settings(seed=seed, steps=100), tmp_path / f"{seed}") for seed in range(2))
    begun.path.mkdir()
    (begun.path / "config.json").write_text("{}")
    (begun.path / "metrics.jsonl").write_text(f"{LINE}\n")
    assert _time_left(Console(quiet=True), [fresh, begun]) == {fresh: 57.0, begun: 27.0}


def test_a_plan_says_what_would_fail(tmp_path):
    settings = Settings(dataset="digits", estimator="exact", steps=100)
    job = Job(settings, tmp_path / "run")
    left = _time_left(Console(quiet=True), [job])
    assert _plan(job, left[job]).startswith("run: would fail: exact enumerates at most 65,536")


def test_an_evaluation_is_predicted_for_all_images_and_samples(monkeypatch):
    monkeypatch.setattr(forecast, "_seconds", lambda work: 1.0)
    settings = Settings(dataset="digits", categories=3, latents=4, eval_samples=40)
    # Of 50 images with 20 samples each it would take a second.
    assert forecast.predicted_seconds(settings) == (0.1, pytest.approx(1597 * 40 / 1000))
