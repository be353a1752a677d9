"""What a training and a sweep show on a terminal, and in a file."""

from io import StringIO

import pytest
from rich.console import Console

from carms.lab.cli import progress
from carms.lab.cli.plot import Plot
from carms.lab.cli.progress import RunProgress
from carms.lab.cli.report import Report
from carms.lab.cli.sweep import Sweep
from carms.lab.cli.sweep_progress import follow
from carms.lab.runs.settings import Settings
from carms.lab.sweep.jobs import Job, Outcome

SETTINGS = Settings(estimator="loorf", steps=2000, log_every=1000)
LINE = {"step": 1000, "objective": -1.25, "gradient_variance": 0.5, "milliseconds": 2.0}


def console(terminal):
    return Console(file=StringIO(), force_terminal=terminal, width=80, color_system=None)


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(console):
    return console.file.getvalue()


def test_a_bar_is_there_before_the_first_line_of_metrics(clock):
    screen = console(terminal=True)
    with RunProgress(screen, SETTINGS) as told:
        told.on_step(40, None)
        clock[0] += 1
        told.on_step(60, -3.5)
        told._progress.refresh()
    assert "60/2,000" in shown(screen)
    assert " left" in shown(screen)
    assert "objective -3.50" in shown(screen)


def test_a_resumed_run_does_not_count_its_old_steps_in_the_rate(clock):
    with RunProgress(console(terminal=True), SETTINGS) as told:
        told._progress.get_time = lambda: clock[0]
        told.on_step(1500, None)
        for step in (1510, 1520, 1530):
            clock[0] += 1
            told.on_step(step, -3.5)
        (task,) = [one for one in told._progress.tasks if one.visible]
        assert task.completed == 1530
        assert task.speed == pytest.approx(10)


def test_a_resumed_run_says_so(clock):
    file = console(terminal=False)
    with RunProgress(file, SETTINGS) as told:
        told.on_step(1500, None)
    assert shown(file).splitlines()[0] == "resumed at step 1,500"


def test_a_file_has_plain_lines_now_and_then(clock):
    file = console(terminal=False)
    with RunProgress(file, SETTINGS) as told:
        told.on_step(0, None)
        for step in range(1, 1001):
            clock[0] += 0.07
            told.on_step(step, -2.0)
        told.on_metrics(LINE)
        told.on_part(50, 100)
    lines = shown(file).splitlines()
    assert not any("resumed" in line for line in lines)
    assert [line.split()[1] for line in lines] == ["0", "429", "858", "1,000"]
    assert lines[-1].endswith("objective    -1.250  variance 0.5  2.00 ms a step")
    assert all(line.isprintable() for line in lines)


def test_metrics_without_a_variance_are_shown(clock):
    file = console(terminal=False)
    with RunProgress(file, SETTINGS) as told:
        told.on_metrics({name: value for name, value in LINE.items() if "variance" not in name})
    assert "variance nan" in shown(file)


@pytest.mark.parametrize("left", [0, 3])
def test_a_finished_sweep_ends_with_a_full_bar(tmp_path, left):
    screen = console(terminal=True)
    jobs = [Job(Settings(seed=seed), tmp_path / f"{seed}") for seed in range(left)]
    assert follow(screen, lambda work, jobs: (Outcome(job, None) for job in jobs), jobs, 3) == []
    last = [line for line in shown(screen).splitlines() if "runs finished" in line][-1]
    assert "3/3" in last
    assert "━" * 40 in last


def test_a_sweep_shows_what_failed(tmp_path):
    screen = console(terminal=True)
    jobs = [Job(Settings(seed=seed), tmp_path / f"{seed}") for seed in range(2)]
    bad = Outcome(jobs[1], "it broke")
    failed = follow(screen, lambda work, jobs: iter([Outcome(jobs[0], None), None, bad]), jobs, 2)
    assert failed == [bad]
    assert "1 finished, 0 begun, 0 waiting, 1 failed" in shown(screen)
    assert "1/2" in shown(screen)


@pytest.mark.parametrize("command", [Plot, Report, lambda runs: Sweep(str(runs[0]), runs[0])])
def test_commands_that_import_much_say_so_at_once(command, tmp_path):
    on_terminal = console(True)
    with pytest.raises(ValueError, match="nothing"):
        command((tmp_path / "nothing",)).run(on_terminal)
    assert "Loading" in on_terminal.file.getvalue()
