"""Train a grid of runs."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.live import Live
from rich.progress import track
from rich.table import Table

from carms.lab.runs.progress import Standing, standing
from carms.lab.runs.settings import Settings
from carms.lab.sweep.executors import Executor, Job, Outcome, local, on_ray
from carms.lab.sweep.grid import read_grid, run_name
from carms.lab.train.forecast import predicted_seconds

__all__ = ["Sweep"]

# Rows of the live table.
SHOWN = 20


@dataclass(frozen=True)
class Sweep:
    """Train every run of a grid, each in its own directory.

    Finished ones are left alone, unfinished ones resumed: it can be stopped and started at will.

    Attributes:
        grid: paper-vae, paper-complete, or a TOML file whose lists are tried in every combination.
        out: the directory under which the runs have theirs.
        dry_run: only list what there is to do, and how long it will take.
        workers: processes of this machine; as many as cores unless told.
        ray: use a Ray cluster instead, at HOST:PORT or ray://HOST:PORT, or auto for the one started
            on this machine; all its nodes must see the directory.
    """

    grid: Annotated[str, tyro.conf.Positional]
    out: Path
    dry_run: bool = False
    workers: int | None = None
    ray: str | None = None

    def run(self, console: Console) -> None:
        runs = [Job(one, self.out / run_name(one)) for one in read_grid(self.grid)]
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"it takes at least one worker, got {self.workers}")
        left = [run for run in runs if standing(run).state != "finished"]
        console.print(f"{len(runs)} runs under {self.out}, {len(runs) - len(left)} finished")
        seconds = _time_left(console, left)
        if self.dry_run:
            for run in runs:
                console.print(_plan(run, seconds.get(run)), highlight=False)
        if left:
            console.print(
                f"{_duration(sum(seconds.values()))} on one core in all, by a measured step and "
                "evaluation of each kind"
            )
        if self.dry_run:
            return
        workers = self.workers or os.cpu_count() or 1
        executor: Executor = partial(local, workers=workers)
        if self.ray is not None:
            executor = partial(on_ray, address=self.ray)
        failed = _follow(console, executor, left)
        for outcome in failed:
            console.print(f"failed: {outcome.run.path.name}: {outcome.error}", highlight=False)
        if failed:
            raise ValueError(f"{len(failed)} of {len(runs)} runs failed; the same command retries")
        console.print(f"all {len(runs)} runs are finished")


def _time_left(console: Console, left: Sequence[Job]) -> dict[Job, float]:
    """Seconds for each, by a measurement of each kind on this machine."""
    kinds = {run: replace(run.settings, seed=0) for run in left}
    quiet = not console.is_terminal
    distinct = track([*dict.fromkeys(kinds.values())], "Timing", console=console, disable=quiet)
    measured = {kind: _measure(kind) for kind in distinct}
    found = {}
    for run, kind in kinds.items():
        step, evaluation = measured[kind]
        found[run] = (run.settings.steps - standing(run).step) * step + evaluation
    return found


def _measure(kind: Settings) -> tuple[float, float]:
    try:
        return predicted_seconds(kind)
    except Exception:
        # It will fail as a run, and say why.
        return 0.0, 0.0


def _plan(run: Job, seconds: float | None) -> str:
    if seconds is None:
        return f"{run.path.name}: finished"
    step = f"step {standing(run).step:,} of {run.settings.steps:,}"
    return f"{run.path.name}: {step}, {_duration(seconds)} left"


def _follow(console: Console, executor: Executor, left: Sequence[Job]) -> list[Outcome]:
    """Run them all; tell how it goes; give those that failed."""
    watch = _Watch(left)
    quiet = not console.is_terminal
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for outcome in executor(left):
            if outcome is None:
                watch.look()
            else:
                watch.ended(outcome)
                if quiet:
                    console.print(_line(outcome), highlight=False)
            if not quiet:
                live.update(watch.table(), refresh=True)
    return watch.failed


def _line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"{outcome.run.path.name}: failed, {outcome.error}"
    return f"{outcome.run.path.name}: finished"


class _Watch:
    """What is known of the runs of a sweep."""

    def __init__(self, runs: Sequence[Job]) -> None:
        self._open = dict.fromkeys(runs, Standing("waiting", {}))
        self._count = len(runs)
        self.failed: list[Outcome] = []

    def look(self) -> None:
        """Read where they are off their directories."""
        for run, before in self._open.items():
            now = standing(run)
            # Not every line has a bound: the latest stays.
            self._open[run] = replace(now, line={**before.line, **now.line})

    def ended(self, outcome: Outcome) -> None:
        self._open.pop(outcome.run, None)
        if outcome.error is not None:
            self.failed.append(outcome)

    def table(self) -> Table:
        """Those that have begun, and how many there are of the others."""
        states = Counter(now.state for now in self._open.values())
        ended = self._count - len(self._open)
        title = (
            f"{ended - len(self.failed)} finished, {states['begun']} begun, "
            f"{states['waiting']} waiting, {len(self.failed)} failed"
        )
        table = Table(title=title)
        table.add_column("run")
        for heading in ("step", "ms a step", "left", "objective", "test bound"):
            table.add_column(heading, justify="right")
        begun = [(run, now) for run, now in self._open.items() if now.state == "begun"]
        for run, now in begun[:SHOWN]:
            table.add_row(run.path.name, *_cells(run, now))
        for outcome in self.failed[-SHOWN:]:
            table.add_row(outcome.run.path.name, "failed", "", "", "", "")
        return table


def _cells(run: Job, now: Standing) -> list[str]:
    if not now.line:
        return ["0", "", "", "", ""]
    milliseconds = now.line["milliseconds"]
    left = (run.settings.steps - now.step) * milliseconds / 1e3
    bound = now.line.get("test_bound")
    return [
        f"{now.step:,} of {run.settings.steps:,}",
        f"{milliseconds:.2f}",
        _duration(left),
        f"{now.line['objective']:.2f}",
        "" if bound is None else f"{bound:.2f}",
    ]


def _duration(seconds: float) -> str:
    """In the unit in which it is read at a glance."""
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
