"""Sweeps on this machine, and what they survive."""

import os
import signal
import subprocess
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from io import StringIO
from itertools import islice

import pytest
from rich.console import Console
from small_grids import GRID, checkpoints, outcomes, sweep, wait_for, write_grid

from carms.lab.cli.sweep import Sweep
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.sweep import jobs, processes
from carms.lab.sweep.grid import run_name
from carms.lab.sweep.jobs import Job, Outcome, train_run
from carms.lab.train.training import Trainer


def test_plan_run_and_run_again(tmp_path, expected):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    plan = sweep(grid, "--out", out, "--dry-run").stdout
    assert "4 runs under" in plan
    assert "0 finished" in plan
    assert "step 0 of 400" in plan
    assert "on one core in all" in plan
    assert not out.exists()
    assert "all 4 runs are finished" in sweep(grid, "--out", out).stdout
    assert outcomes(out) == expected
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert "4 finished" in sweep(grid, "--out", out).stdout
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    # Of these two, one is for binary variables alone.
    grid = write_grid(tmp_path / "grid.toml", estimator=["arms", "loorf"], seed=0, steps=50)
    done = sweep(grid, "--out", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert "1 of 2 runs failed" in done.stderr
    assert done.stdout.count("binary variables") == 1
    assert "loorf" in done.stdout
    assert len([*(tmp_path / "out").glob("*/result.json")]) == 1


def children_of(pid):
    text = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    return [int(word) for word in text.split()]


def test_a_process_killed_under_a_run(tmp_path, expected, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out)
    wait_for(lambda: checkpoints(out))
    # The last of its children; the first may be the one that watches over resources.
    os.kill(max(children_of(driver.pid)), signal.SIGKILL)
    output, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, output + errors
    assert outcomes(out) == expected


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_stopped_and_started_again(tmp_path, expected, number, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out)
    wait_for(lambda: checkpoints(out))
    driver.send_signal(number)
    output, errors = driver.communicate(timeout=300)
    if number != signal.SIGKILL:
        assert driver.returncode == 130
        assert "run the same command again" in output
        assert errors == ""
    assert "all 4 runs are finished" in sweep(grid, "--out", out).stdout
    assert outcomes(out) == expected


def alive(pid):
    text = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return text.stdout.strip() not in ("", "Z")


def test_processes_end_with_a_driver_that_is_killed_before_they_have_begun(tmp_path, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out, "--workers", 2)
    # With the one that watches over resources.
    wait_for(lambda: len(children_of(driver.pid)) == 3)
    workers = children_of(driver.pid)
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(map(alive, workers)), 100)


def test_two_processes_do_not_train_one_run(tmp_path):
    settings = Settings(**{**GRID, "estimator": "loorf", "seed": 0})
    trainer = Trainer(settings, tmp_path / "run")
    with (
        trainer.directory.held(),
        pytest.raises(ValueError, match="another process is training"),
    ):
        Trainer(settings, tmp_path / "run").run()


class Held:
    """A pool in which another process holds the run of seed 0, as often as ``times`` says."""

    times, tried = 0, 0

    def __init__(self, *args, **options):
        pass

    def shutdown(self):
        pass

    def submit(self, attempt, work, job):
        future = Future()
        held = job.settings.seed == 0 and Held.tried < Held.times
        Held.tried += held
        future.set_result(Outcome(job, "by process 7" if held else None, held))
        return future


@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_another_process_holds_is_tried_again_in_the_end(tmp_path, monkeypatch, times):
    monkeypatch.setattr(Held, "times", times)
    monkeypatch.setattr(Held, "tried", 0)
    monkeypatch.setattr(processes, "ProcessPoolExecutor", Held)
    first, *others = (Job(Settings(seed=seed), tmp_path / f"{seed}") for seed in range(3))
    ended = islice(processes.in_processes(train_run, [first, *others], 1), 50)
    last = Outcome(first, "by process 7", held=True) if times > 1 else Outcome(first, None)
    assert [one for one in ended if one] == [*(Outcome(job, None) for job in others), last]


def test_a_run_that_another_process_holds_has_not_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    settings = Settings(**{**GRID, "estimator": "loorf", "seed": 0, "steps": 20})
    job = Job(settings, tmp_path / run_name(settings))
    with RunDirectory(job.path, settings.to_json()).held():
        outcome = jobs.attempt(train_run, job)
        assert outcome.held
        assert "another process is training" in outcome.error
        monkeypatch.setattr(Sweep, "_executor", lambda self: lambda work, jobs: iter([outcome]))
        grid = write_grid(tmp_path / "grid.toml", estimator="loorf", seed=0, steps=20)
        console = Console(file=StringIO(), width=500)
        Sweep(str(grid), tmp_path).run(console)
    text = console.file.getvalue()
    assert f"{job.path.name}: held, another process is training" in text
    assert text.endswith("0 of 1 runs are finished, another process holds 1\n")


class Dying:
    """A pool whose processes all die once the run of seed 0 begins."""

    made = 0

    def __init__(self, *args, **options):
        self.dead = False
        Dying.made += 1
        assert Dying.made < 10, "it never gives up"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def shutdown(self):
        pass

    def submit(self, attempt, work, job):
        future = Future()
        self.dead |= job.settings.seed == 0
        if self.dead:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(Outcome(job, None))
        return future


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_kills_its_process_is_given_up_and_no_other_is(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(Dying, "made", 0)
    monkeypatch.setattr(processes, "ProcessPoolExecutor", Dying)
    deadly, good = (Job(Settings(seed=seed), tmp_path / f"{seed}") for seed in range(2))
    # An earlier sweep had begun it already.
    with RunDirectory(good.path, good.settings.to_json()).held():
        pass
    outcomes = {
        one for one in islice(processes.in_processes(train_run, [deadly, good], workers), 50) if one
    }
    assert outcomes == {Outcome(deadly, "its process died 3 times"), Outcome(good, None)}
