"""Run the contest of all estimators on all tasks."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from filelock import Timeout
from rich.console import Console
from rich.table import Table

from carms.lab.cli.progress import progress_bars
from carms.lab.cli.words import counted, duration
from carms.lab.contest import html, markdown
from carms.lab.contest.contest import read_contest
from carms.lab.contest.picture import draw_contest
from carms.lab.contest.plan import chosen_rates, expected_runs, missing_runs, planned_results
from carms.lab.contest.results import Result, Run, read_results, results_path
from carms.lab.contest.running import running_lock, work
from carms.lab.contest.task import Task
from carms.lab.contest.tasks import TASKS
from carms.lab.contest.times import PARTS, measure, read_times, seconds_of_run, write_times
from carms.lab.data.datasets import verify
from carms.lab.runs.writing import write_atomically
from carms.lab.sweep.jobs import Executor, Job

__all__ = ["report_contest", "run_contest"]


def run_contest(console: Console, grid: str, out: Path, dry_run: bool, executor: Executor) -> None:
    """Run what is missing of the tasks, one after the other.

    Args:
        console: to tell how it goes.
        grid: ``contest`` for all tasks, ``contest/TASK`` for one.
        out: directory of the files of results.
        dry_run: only tell what is missing, and how long it takes.
        executor: does the jobs.
    """
    seconds = 0.0
    for task in _chosen(grid):
        found = read_results(results_path(out, task), task)
        results = planned_results(task, found)
        expected = sum(expected_runs(task, results).values())
        there = f"{len(results)} of {expected} runs are there"
        others = len(found) - len(results)
        left_out = f", {others} of other estimators, rates or seeds are left out" if others else ""
        console.print(f"{task.name}: {there}{left_out}", highlight=False)
        if any(state != "good" for _, state in _files(task)):
            console.print(f"{task.name}: left out, no images: carms data fetch {task.dataset}")
        elif dry_run:
            seconds += _estimate(console, task, results)
            if not _is_timed(task, out):
                console.print(f"{task.name}: times of steps are to be measured", highlight=False)
        else:
            _run_task(console, task, out, executor)
    if dry_run:
        console.print(f"{duration(seconds)} on one core in all, by a few measured steps of each")


def _chosen(grid: str) -> Sequence[Task]:
    _, slash, name = grid.partition("/")
    if slash and name not in TASKS:
        raise ValueError(f"tasks of the contest are {', '.join(TASKS)}, got {name!r}")
    return [TASKS[name]] if slash else [*TASKS.values()]


def _files(task: Task) -> list[tuple[Path, str]]:
    return list(verify(task.dataset)) if task.dataset else []


def _estimate(console: Console, task: Task, results: dict[Run, Result]) -> float:
    """Tell how long the runs of each entry take, and give the seconds of those that are left."""
    expected = expected_runs(task, results)
    if len(results) == sum(expected.values()):
        return 0.0
    torch.set_num_threads(1)
    left = 0.0
    table = Table.grid("entry", "forecast", padding=(0, 2))
    with progress_bars(console, transient=True) as bars:
        for entry in bars.track(task.entries(), description=f"Timing {task.name}"):
            if entry.reason:
                table.add_row(f"  {entry.name}", f"not applicable, {entry.reason}")
                continue
            runs = expected[entry.name] - sum(run.estimator == entry.name for run in results)
            seconds = seconds_of_run(task, entry.name) if runs else 0.0
            left += runs * seconds
            forecast = f"{counted(runs, 'run')} of {duration(seconds)}"
            table.add_row(
                f"  {entry.name}", f"{forecast}, {entry.evaluations:g} evaluations a step"
            )
    console.print(table, highlight=False)
    console.print(f"{task.name}: {duration(left)} on one core", highlight=False)
    return left


def _run_task(console: Console, task: Task, out: Path, executor: Executor) -> None:
    """Run what is missing of a task, unless another process does."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        with running_lock(out, task).acquire(timeout=0):
            _run_missing(console, task, results_path(out, task), executor)
            _measure_missing(console, task, out)
    except Timeout:
        console.print(f"{task.name}: another process runs it", highlight=False)


def _run_missing(console: Console, task: Task, path: Path, executor: Executor) -> None:
    while runs := missing_runs(task, read_results(path, task)):
        jobs = [Job(run, path) for run in runs]
        errors = []
        for outcome in executor(partial(work, task.name), jobs):
            if outcome is None:
                continue
            run = outcome.job.settings
            told = outcome.error or "ended"
            console.print(
                f"{task.name}, {run.kind}, {run.estimator}, rate {run.rate:g}, seed {run.seed}: "
                f"{told}",
                highlight=False,
            )
            errors += [outcome.error] if outcome.error else []
        if errors:
            failed = f"{counted(len(errors), 'run')} of {task.name} failed"
            raise ValueError(f"{failed}; the same command retries")


def _measure_missing(console: Console, task: Task, out: Path) -> None:
    """Measure how long steps of all entries take, if that is not known."""
    rate = chosen_rates(task, read_results(results_path(out, task), task))[task.reference]
    if rate is None or _is_timed(task, out):
        return
    text = f"{task.name}: the times of all entries are measured; let nothing else run"
    console.print(text, highlight=False)
    torch.set_num_threads(1)
    with progress_bars(console, transient=True) as bars:
        parts = bars.track(range(PARTS), description=f"Timing {task.name}")
        write_times(out, task, measure(task, rate, parts))


def _is_timed(task: Task, out: Path) -> bool:
    times = read_times(out, task)
    return times is not None and times.covers(task)


def report_contest(console: Console, folder: Path, out: Path, kind: str, command: str) -> None:
    """Write the page of the contest; as Markdown, with its picture in a file beside it."""
    if kind not in ("html", "markdown"):
        raise ValueError(f"the contest is reported as html or markdown, got {kind!r}")
    contest = read_contest(folder)
    picture = draw_contest(contest.begun, contest.standings)
    out.parent.mkdir(parents=True, exist_ok=True)
    if kind == "html":
        text, image = html.to_page(contest, picture, command), {}
    else:
        image = {out.with_suffix(".png"): picture} if contest.begun else {}
        text = markdown.to_page(contest, "".join(path.name for path in image), command)
    # Names of files and machines may hold what is no text.
    page = text.encode("utf-8", "backslashreplace")
    for path, contents in {out: page, **image}.items():
        write_atomically(path, contents)
        console.print(f"written to {path}", markup=False, highlight=False)
