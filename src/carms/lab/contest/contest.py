"""All results of the contest in one directory, and what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from carms.lab.contest.machine import noted_limits, noted_machines
from carms.lab.contest.plan import missing_runs, planned_results
from carms.lab.contest.results import Result, Run, are_results, read_results, results_path
from carms.lab.contest.standings import Standing, make_standings
from carms.lab.contest.tables import summary_sheet, task_sheets, winners_sheet
from carms.lab.contest.task import Task
from carms.lab.contest.tasks import TASKS
from carms.lab.contest.times import Times, read_times
from carms.lab.report.sheets import Sheet

__all__ = ["Contest", "is_contest", "read_contest"]


@dataclass(frozen=True)
class Contest:
    """The contest as far as it was run.

    Attributes:
        folder: directory of the results.
        results: results that count, by task name.
        left_out: number of results that do not count, by task name.
        times: times of the entries of each task for which they were measured, by task name.
        standings: standings of the entries of each task that has final runs, by task name.
    """

    folder: Path
    results: Mapping[str, Mapping[Run, Result]]
    left_out: Mapping[str, int]
    times: Mapping[str, Times]
    standings: Mapping[str, Sequence[Standing]]

    @property
    def begun(self) -> list[Task]:
        """Tasks that have final runs."""
        return [TASKS[name] for name in self.standings]

    def is_timed(self, task: Task) -> bool:
        """Whether the times of all entries were measured."""
        return task.name in self.times and self.times[task.name].covers(task)

    def winners(self) -> Sheet:
        """What is better than the reference of each task."""
        return winners_sheet(self.begun, self.standings)

    def summaries(self) -> list[Sheet]:
        """Tables over the tasks with categories, at equal time and at equal steps, if anything is
        compared. Subsets and sequences have other estimators, some by the same name.
        """
        tasks = [task for task in self.begun if task.choices == "categories"]
        sheets = [
            summary_sheet(tasks, self.standings, moment) for moment in ("at_time", "at_steps")
        ]
        return [sheet for sheet in sheets if sheet.rows]

    def sheets(self, task: Task) -> list[Sheet]:
        """Tables of a task."""
        return task_sheets(task, self.standings[task.name])

    def settings(self, task: Task) -> str:
        """The settings of a task in a sentence."""
        rates = ", ".join(f"{rate:g}" for rate in task.rates)
        trials = "one trial" if task.trials == 1 else f"{task.trials} trials"
        return (
            f"{task.steps:,} steps, {task.evaluations} evaluations of f for a step, rates {rates}, "
            f"{trials} of each rate, up to {task.seeds} seeds."
        )

    def not_applicable(self, task: Task) -> list[str]:
        """Entries that cannot take part in a task, with the reason."""
        return [f"{entry.name}: {entry.reason}" for entry in task.entries() if entry.reason]

    def failures(self, task: Task) -> list[str]:
        """Runs and times of a task that failed, with the error."""
        times = self.times[task.name].failed if task.name in self.times else {}
        return [f"{name}, times: {reason}" for name, reason in times.items()] + [
            f"{each.entry.name}, {error}"
            for each in self.standings[task.name]
            for error in each.failures
        ]

    def missing(self) -> list[str]:
        """What was not run yet."""
        lines = []
        for name, task in TASKS.items():
            if not self.results[name]:
                lines.append(f"{name}: it was not run")
            elif missing := missing_runs(task, self.results[name]):
                plural = "s" if len(missing) > 1 else ""
                if missing[0].kind == "trial":
                    what = f"trial{plural}, and final runs after all trials"
                else:
                    what = f"final run{plural}"
                lines.append(f"{name}: {len(missing)} {what}")
            if self.results[name] and not self.is_timed(task):
                lines.append(f"{name}: times of steps")
        return lines or ["nothing"]

    def limits(self) -> list[str]:
        """What is to be known about some of the results."""
        return noted_limits(self.folder)

    def machines_and_hours(self) -> list[str]:
        """Machines, and the processor time of each task in steps, without judgements."""
        lines = noted_machines(self.folder)
        for machine in dict.fromkeys(times.machine for times in self.times.values()):
            names = ", ".join(name for name, each in self.times.items() if each.machine == machine)
            lines.append(f"{machine}: times of steps of {names}")
        for name, results in self.results.items():
            hours = sum(result.seconds for result in results.values()) / 3600
            if results:
                lines.append(f"{name}: {len(results)} runs, {hours:.1f} hours in training steps")
            if others := self.left_out[name]:
                lines.append(f"{name}: {others} runs of other estimators, rates or seeds, left out")
        return lines


def is_contest(folder: Path) -> bool:
    """Whether a directory has results of the contest."""
    return any(are_results(results_path(folder, task)) for task in TASKS.values())


def read_contest(folder: Path) -> Contest:
    """Read all results of a directory."""
    found = {name: read_results(results_path(folder, task), task) for name, task in TASKS.items()}
    results = {name: planned_results(TASKS[name], own) for name, own in found.items()}
    left_out = {name: len(own) - len(results[name]) for name, own in found.items()}
    read = {name: read_times(folder, task) for name, task in TASKS.items()}
    times = {name: own for name, own in read.items() if own}
    standings = {
        name: make_standings(TASKS[name], own, times.get(name))
        for name, own in results.items()
        if any(run.kind == "final" for run in own)
    }
    return Contest(folder, results, left_out, times, standings)
