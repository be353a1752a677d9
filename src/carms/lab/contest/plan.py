"""Plan the runs of a task, so that partial results are useful."""

from collections import Counter
from collections.abc import Mapping

from carms.lab.contest.results import Result, Run
from carms.lab.contest.task import Task

__all__ = ["chosen_rates", "expected_runs", "missing_runs", "planned_results"]

# Seeds of trials, apart from those of final runs.
FIRST_TRIAL_SEED = 1000


def expected_runs(task: Task, results: Mapping[Run, Result]) -> dict[str, int]:
    """The number of runs of each entry. One whose rates all failed has no final runs."""
    hopeless = {name for name, rate in chosen_rates(task, results).items() if rate is None}
    trials = Counter(run.estimator for run in _trials(task))
    return {
        name: count if name in hopeless else count + task.seeds for name, count in trials.items()
    }


def missing_runs(task: Task, results: Mapping[Run, Result]) -> list[Run]:
    """The runs that can start now: trials, and final runs after all of them.

    Final runs of all entries take turns, so that partial results compare all of them.
    """
    missing = [run for run in _planned(task, results) if run not in results]
    return [run for run in missing if run.kind == "trial"] or missing


def planned_results(task: Task, results: Mapping[Run, Result]) -> dict[Run, Result]:
    """The results that count: not those of unknown estimators, or of rates that are not chosen."""
    planned = {*_planned(task, results)}
    return {run: result for run, result in results.items() if run in planned}


def chosen_rates(task: Task, results: Mapping[Run, Result]) -> dict[str, float | None]:
    """The rate of each entry whose trials are over; None if all its rates failed.

    The best rate is the one whose trials have the best mean of their best validation scores. A
    rate that failed with any seed is out.
    """
    found: dict[str, float | None] = {}
    sign = 1 if task.higher_wins else -1
    for name in dict.fromkeys(run.estimator for run in _trials(task)):
        trials = [run for run in _trials(task) if run.estimator == name]
        if not all(run in results for run in trials):
            continue
        totals = {}
        for rate in task.rates:
            ended = [results[run] for run in trials if run.rate == rate]
            if not any(result.error for result in ended):
                totals[rate] = sign * sum(result.scores[-1] for result in ended)
        found[name] = max(totals, key=totals.__getitem__) if totals else None
    return found


def _planned(task: Task, results: Mapping[Run, Result]) -> list[Run]:
    """Trials, and the final runs of entries that have a rate.

    Within trials and final runs all entries have a seed before the next one starts.
    """
    rates = chosen_rates(task, results)
    finals = [
        Run("final", name, rate, seed)
        for seed in range(task.seeds)
        for name, rate in rates.items()
        if rate is not None
    ]
    return [*_trials(task), *finals]


def _trials(task: Task) -> list[Run]:
    return [
        Run("trial", entry.name, rate, FIRST_TRIAL_SEED + k)
        for k in range(task.trials)
        for entry in task.entries()
        if not entry.reason
        for rate in task.rates
    ]
