"""Progress of a command: bars on a terminal, plain lines in a file or a pipe."""

import math
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from carms.lab.runs.settings import Settings

__all__ = ["RunProgress", "progress_bars"]

# Seconds from one look of a bar at the training to the next, and from one plain line to the next.
LOOK, LINE = 0.1, 30.0


class RateColumn(ProgressColumn):
    """Steps a second, once they are known."""

    def render(self, task: Task) -> Text:
        """Make the cell of a bar."""
        if task.speed is None or task.finished:
            return Text("")
        return Text(f"{task.speed:,.1f}/s" if task.speed < 10 else f"{task.speed:,.0f}/s")


def progress_bars(console: Console, transient: bool = False) -> Progress:
    """Bars with what is done, the rate and the time left; nothing where there is no terminal.

    Transient bars vanish in the end.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
        expand=True,
        transient=transient,
    )


class RunProgress:
    """Progress of one run, whose methods are told of it.

    Args:
        console: where to show it.
        settings: what is trained.
    """

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console, self._settings = console, settings
        self._progress = progress_bars(console)
        name, steps = settings.estimator, settings.steps
        self._training = self._progress.add_task(name, total=steps, visible=False)
        self._evaluation = self._progress.add_task("images evaluated", total=0, visible=False)
        self._begun, self._due = False, 0.0

    def __enter__(self) -> "RunProgress":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def on_step(self, step: int, objective: float | None) -> None:
        """Take note of a step, and of the mean objective of the latest ones, if there are any."""
        if step and objective is None:
            self._console.print(f"resumed at step {step:,}", highlight=False)
        now = time.monotonic()
        if now < self._due:
            return
        if self._console.is_terminal:
            self._move(step, objective)
            self._due = now + LOOK
        else:
            self._say(step, "" if objective is None else f"  objective {objective:9.3f}")

    def _move(self, step: int, objective: float | None) -> None:
        if not self._begun:
            # A run that is resumed does not begin with a great leap, by which the rate is measured.
            self._progress.reset(self._training, completed=step, visible=True)
            self._begun = True
        text = "" if objective is None else f"  objective {objective:.2f}"
        description = f"{self._settings.estimator}{text}"
        self._progress.update(self._training, completed=step, description=description)

    def on_metrics(self, line: Mapping[str, Any]) -> None:
        """Take note of a line of metrics."""
        if self._console.is_terminal:
            self._move(line["step"], line["objective"])
        else:
            variance = line.get("gradient_variance", math.nan)
            self._say(
                line["step"],
                f"  objective {line['objective']:9.3f}  variance {variance:.4g}  "
                f"{line['milliseconds']:.2f} ms a step",
            )

    def _say(self, step: int, text: str) -> None:
        self._console.print(f"step {step:>9,} of {self._settings.steps:,}{text}", highlight=False)
        self._due = time.monotonic() + LINE

    def on_part(self, done: int, total: int) -> None:
        """Take note of the number of images that are evaluated, and of how many there are."""
        self._progress.update(self._evaluation, completed=done, total=total, visible=True)
