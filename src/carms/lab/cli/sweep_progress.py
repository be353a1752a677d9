"""Progress of a sweep: a bar and a live table on a terminal, a line for each run elsewhere."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from carms.lab.cli.words import duration
from carms.lab.runs.progress import Reached, reached
from carms.lab.runs.settings import Settings
from carms.lab.sweep.jobs import Executor, Job, Outcome, train_run

__all__ = ["follow"]

# Rows of the live table.
SHOWN = 20


def follow(
    console: Console, executor: Executor, left: Sequence[Job[Settings]], total: int
) -> list[Outcome]:
    """Train the runs that are left of a total, show how it goes, and give those that failed, or
    that another process holds.
    """
    progress = _Progress(left, total)
    quiet = not console.is_terminal
    with Live(console=console, auto_refresh=False) as live:
        for outcome in executor(train_run, left):
            if outcome is None:
                progress.look()
            else:
                progress.ended(outcome)
                if quiet:
                    console.print(_line(outcome), highlight=False)
            if not quiet:
                live.update(progress.view(), refresh=True)
        if not quiet:
            live.update(progress.bar(), refresh=True)
    unfinished = [*progress.held, *progress.failed]
    if not quiet:
        # The live table has no room for errors.
        for outcome in unfinished:
            console.print(_line(outcome), highlight=False)
    return unfinished


def _line(outcome: Outcome) -> str:
    name = outcome.job.path.name
    if outcome.held:
        return f"{name}: held, {outcome.error}"
    return f"{name}: finished" if outcome.error is None else f"{name}: failed, {outcome.error}"


class _Progress:
    """What is known of the runs of a sweep.

    Args:
        left: runs that are not finished.
        total: number of all runs.
    """

    def __init__(self, left: Sequence[Job[Settings]], total: int) -> None:
        self._open = dict.fromkeys(left, Reached("waiting", {}))
        self._total = total
        self.failed: list[Outcome] = []
        self.held: list[Outcome] = []

    def look(self) -> None:
        """Read from their directories how far the runs are."""
        for job, before in self._open.items():
            now = reached(job.path, job.settings)
            # Not every line has a test bound: the latest one stays.
            self._open[job] = replace(now, line={**before.line, **now.line})

    def ended(self, outcome: Outcome) -> None:
        """Take note of the end of a run."""
        self._open.pop(outcome.job, None)
        if outcome.error is not None:
            (self.held if outcome.held else self.failed).append(outcome)

    @property
    def _finished(self) -> int:
        return self._total - len(self._open) - len(self.failed) - len(self.held)

    def bar(self) -> Progress:
        """A bar with the number of finished runs."""
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        bar = Progress(*columns, auto_refresh=False)
        bar.add_task("runs finished", completed=self._finished, total=self._total)
        return bar

    def view(self) -> Group:
        """The bar, below a table of the runs that have begun or failed."""
        table = self._table()
        above = table if table.row_count else str(table.title)
        return Group(above, self.bar())

    def _table(self) -> Table:
        states = Counter(now.state for now in self._open.values())
        title = (
            f"{self._finished} finished, {states['begun']} begun, "
            f"{states['waiting']} waiting, {len(self.failed)} failed"
        )
        if self.held:
            title += f", {len(self.held)} held by another process"
        table = Table(title=title)
        table.add_column("run", overflow="fold")
        for heading in ("step", "ms a step", "left", "objective", "test bound"):
            table.add_column(heading, justify="right")
        begun = [(job, now) for job, now in self._open.items() if now.state == "begun"]
        for job, now in begun[:SHOWN]:
            table.add_row(job.path.name, *_cells(job.settings, now))
        for outcome in self.failed[-SHOWN:]:
            table.add_row(outcome.job.path.name, "failed", "", "", "", "")
        return table


def _cells(settings: Settings, now: Reached) -> list[str]:
    if not now.line:
        return ["0", "", "", "", ""]
    milliseconds = now.line["milliseconds"]
    left = (settings.steps - now.step) * milliseconds / 1e3
    bound = now.line.get("test_bound")
    return [
        f"{now.step:,} of {settings.steps:,}",
        f"{milliseconds:.2f}",
        duration(left),
        f"{now.line['objective']:.2f}",
        "" if bound is None else f"{bound:.2f}",
    ]
