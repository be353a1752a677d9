"""The command that trains a grid of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from carms.lab.cli.flags import explained, named
from carms.lab.cli.progress import progress_bars
from carms.lab.cli.words import counted, duration
from carms.lab.runs.printable import printable

if TYPE_CHECKING:
    from carms.lab.runs.settings import Settings
    from carms.lab.sweep.jobs import Executor, Job

__all__ = ["Sweep"]


@dataclass(frozen=True)
class Sweep:
    """Train every run of a grid, each in its own directory.

    Finished runs are left alone and unfinished ones are resumed, so the command can be stopped and
    started at any time. The contest writes two small files for each task instead, with its runs and
    with the times of steps, which it measures after them; a run that was stopped begins anew.

    Attributes:
        grid: paper-vae, paper-complete, short-vae (the rows of paper-vae with 100,000 steps), or a
            TOML file whose lists are tried in every combination; contest for every estimator on
            every task of the contest, contest/TASK for one task
        out: directory under which each run gets its own (required, except for --dry-run)
        dry_run: list what there is to do, and how long it will take, and train nothing
        workers: number of processes on this machine (default: the number of cores)
        ray: address of a Ray cluster to use instead, HOST:PORT or ray://HOST:PORT, or auto for a
            cluster that was started on this machine; all its nodes must see the directory
    """

    grid: Annotated[str, tyro.conf.Positional, named("GRID")]
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff, explained] = False
    workers: Annotated[int | None, explained] = None
    ray: Annotated[str | None, explained] = None

    def run(self, console: Console) -> None:
        """Plan the runs, then train those that are left."""
        if self.out is None and not self.dry_run:
            raise ValueError("give a directory for the runs, --out DIR; only --dry-run needs none")
        with console.status("Loading"):
            from carms.lab.cli.sweep_progress import follow
            from carms.lab.runs.progress import reached
            from carms.lab.runs.writing import check_folder
            from carms.lab.sweep.grid import read_grid, run_name
            from carms.lab.sweep.jobs import Job

        out = self.out or Path()
        if not self.dry_run:
            check_folder(out)
        executor = self._executor()
        if self.grid.partition("/")[0] == "contest":
            from carms.lab.cli.contest import run_contest

            run_contest(console, self.grid, out, self.dry_run, executor)
            return
        jobs = [Job(one, out / run_name(one)) for one in read_grid(self.grid)]
        left = [job for job in jobs if reached(job.path, job.settings).state != "finished"]
        finished = len(jobs) - len(left)
        under = f" under {out}" if self.out else ""
        console.print(f"{counted(len(jobs), 'run')}{under}, {finished} finished")
        seconds = _time_left(console, left)
        if self.dry_run:
            for job in jobs:
                console.print(_plan(job, seconds.get(job)), highlight=False)
        if left:
            total = sum(one for one in seconds.values() if not isinstance(one, str))
            console.print(
                f"{duration(total)} on one core in all, estimated from a step and an evaluation "
                "of each kind of run"
            )
        if self.dry_run:
            return
        unfinished = follow(console, executor, left, len(jobs))
        failed = [outcome for outcome in unfinished if not outcome.held]
        if failed:
            raise ValueError(f"{len(failed)} of {len(jobs)} runs failed; the same command retries")
        if unfinished:
            done, held = len(jobs) - len(unfinished), len(unfinished)
            console.print(f"{done} of {len(jobs)} runs are finished, another process holds {held}")
        else:
            console.print(f"all {len(jobs)} runs are finished")

    def _executor(self) -> "Executor":
        """The function that runs the jobs: in processes of this machine, or on the cluster."""
        from carms.lab.sweep.cluster import host_and_port, on_ray
        from carms.lab.sweep.processes import in_processes, number_of_workers

        workers = number_of_workers(self.workers)
        if self.ray is not None:
            if self.workers is not None:
                raise ValueError(
                    "give --workers or --ray, not both: a cluster uses all the cores it has"
                )
            # An error here, because a dry run does not use the cluster.
            host_and_port(self.ray)
            return partial(on_ray, address=self.ray)
        return partial(in_processes, workers=workers)


def _time_left(
    console: Console, left: Sequence["Job[Settings]"]
) -> dict["Job[Settings]", float | str]:
    """Seconds that each job will take, by a measurement of each kind on this machine, or why it
    would fail.
    """
    from carms.lab.runs.progress import reached

    kinds = {job: replace(job.settings, seed=0) for job in left}
    distinct = [*dict.fromkeys(kinds.values())]
    with progress_bars(console, transient=True) as bars:
        timed = bars.track(distinct, description="Timing")
        measured = {kind: _measure(kind) for kind in timed}
    found: dict[Job[Settings], float | str] = {}
    for job, kind in kinds.items():
        times = measured[kind]
        steps = job.settings.steps - reached(job.path, job.settings).step
        found[job] = times if isinstance(times, str) else steps * times[0] + times[1]
    return found


def _measure(kind: "Settings") -> tuple[float, float] | str:
    """Seconds of a step and of the evaluation, or why there are none."""
    from carms.lab.train.forecast import predicted_seconds

    try:
        return predicted_seconds(kind)
    except Exception as error:
        # One run that fails does not stop the others.
        return str(error)


def _plan(job: "Job[Settings]", seconds: float | str | None) -> str:
    from carms.lab.runs.progress import reached

    if seconds is None:
        return f"{job.path.name}: finished"
    if isinstance(seconds, str):
        return f"{job.path.name}: would fail: {printable(seconds)}"
    step = f"step {reached(job.path, job.settings).step:,} of {job.settings.steps:,}"
    return f"{job.path.name}: {step}, {duration(seconds)} left"
