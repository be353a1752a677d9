"""Where each entry of a task stands, from the results that there are."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from carms.lab.contest.equal_time import TimedRuns, nearest_judgement
from carms.lab.contest.plan import chosen_rates
from carms.lab.contest.results import Result, Run
from carms.lab.contest.statistics import (
    LEAST_SEEDS,
    Difference,
    Rank,
    paired_difference,
    ranks,
)
from carms.lab.contest.task import Entry, Task

__all__ = ["Place", "Standing", "curve", "make_standings"]

Scores = dict[int, float | None]
"""Score by seed; None if the run failed, or was not judged in time."""


@dataclass(frozen=True)
class Place:
    """An entry's scores at equal steps or at equal time, against those of the others.

    Attributes:
        scores: by seed.
        lead: over the reference; None without two runs to compare, or if one failed.
        rank: among all entries that are compared; None if it is not compared.
    """

    scores: Scores
    lead: Difference | None = None
    rank: Rank | None = None

    @property
    def wins(self) -> bool:
        """Whether it is better than the reference."""
        return self.lead is not None and self.lead.verdict == "better"


@dataclass(frozen=True)
class Standing:
    """All that is known of an entry.

    Attributes:
        entry: the estimator.
        rate: the chosen rate; None before the trials end, or if all rates failed.
        results: results of its final runs.
        failures: errors of its trials and final runs.
        hopeless: whether all rates failed in trials, so that there are no final runs.
        time: time of a run, relative to one of the reference; None before there is one.
        judged_at: time of the judgement at equal time, relative to a run of the reference; None
            before there is one.
        at_steps: score after all steps; not compared if a step takes more than the budget.
        at_time: score when the reference has made all its steps.
    """

    entry: Entry
    rate: float | None
    results: Sequence[Result]
    failures: Sequence[str]
    hopeless: bool
    time: float | None
    judged_at: float | None
    at_steps: Place
    at_time: Place


def make_standings(task: Task, results: Mapping[Run, Result]) -> list[Standing]:
    """The standings of all entries that can take part, in order of their names."""
    rates = chosen_rates(task, results)
    entries = [entry for entry in task.entries() if not entry.reason]
    finals = {entry.name: _finals(entry, rates, results) for entry in entries}
    seconds = {name: _median_seconds(runs) for name, runs in finals.items()}
    budget = seconds[task.reference]
    judged = {
        name: int(nearest_judgement(task, torch.tensor(task.steps * budget / own).double()))
        if own and budget
        else 0
        for name, own in seconds.items()
    }
    hopeless = {name for name, rate in rates.items() if rate is None}
    seeds = [result.run.seed for result in finals[task.reference]]

    def scores(name: str, judgements: int) -> Scores:
        # Without a rate, an entry counts as failed with every seed.
        return dict.fromkeys(seeds) if name in hopeless else _scores(finals[name], judgements)

    within_budget = [entry.name for entry in entries if entry.evaluations <= task.evaluations]
    timed = list(finals) if budget else []
    every_judgement = len(task.judged_steps)
    at_steps = _places(task, {name: scores(name, every_judgement) for name in within_budget})
    at_time = _places(
        task,
        {name: scores(name, judged[name]) for name in timed},
        TimedRuns(task, {name: {r.run.seed: r for r in runs} for name, runs in finals.items()}),
    )
    times = {name: own / budget if own and budget else None for name, own in seconds.items()}
    return [
        Standing(
            entry,
            rates.get(entry.name),
            finals[entry.name],
            _failures(entry, results),
            entry.name in hopeless,
            times[entry.name],
            _moment(task, times[entry.name], judged[entry.name]),
            at_steps.get(entry.name, Place(_scores(finals[entry.name], every_judgement))),
            at_time.get(entry.name, Place({})),
        )
        for entry in entries
    ]


def curve(task: Task, standing: Standing) -> list[tuple[float, float]]:
    """Mean score over the seeds that did not fail, against seconds, at each judgement."""
    runs = [result for result in standing.results if not result.error]
    seconds = _median_seconds(runs)
    if seconds is None:
        return []
    means = (statistics.mean(scores) for scores in zip(*(r.scores for r in runs), strict=True))
    times = (step / task.steps * seconds for step in task.judged_steps)
    return list(zip(times, means, strict=True))


def _finals(
    entry: Entry, rates: Mapping[str, float | None], results: Mapping[Run, Result]
) -> list[Result]:
    rate = rates.get(entry.name)
    return [
        result
        for run, result in results.items()
        if (run.kind, run.estimator, run.rate) == ("final", entry.name, rate)
    ]


def _failures(entry: Entry, results: Mapping[Run, Result]) -> list[str]:
    return [
        f"{run.kind} run at rate {run.rate:g} with seed {run.seed}: {result.error}"
        for run, result in results.items()
        if run.estimator == entry.name and result.error
    ]


def _median_seconds(runs: Sequence[Result]) -> float | None:
    """Median time of a whole run, because the machine may have been busy during some of them."""
    whole = [result.seconds for result in runs if not result.error]
    return statistics.median(whole) if whole else None


def _moment(task: Task, time: float | None, judgement: int) -> float | None:
    """When the judgement of that number was, relative to a run of the reference."""
    if time is None or not judgement:
        return None
    return time * task.judged_steps[judgement - 1] / task.steps


def _scores(runs: Sequence[Result], judgements: int) -> Scores:
    """Scores by seed after a number of judgements; None if there was none, or if it failed, be it
    later.
    """
    return {
        result.run.seed: result.scores[judgements - 1] if judgements and not result.error else None
        for result in sorted(runs, key=lambda result: result.run.seed)
    }


def _places(
    task: Task, scores: Mapping[str, Scores], timed: TimedRuns | None = None
) -> dict[str, Place]:
    """Compare all that have scores, and rank those with enough seeds on the seeds of all these.

    Args:
        task: what was learned.
        scores: scores of each entry.
        timed: the runs, if the moment of the scores depends on how long these took.
    """
    scores = {name: own for name, own in scores.items() if own}
    if task.reference not in scores:
        return {name: Place(own) for name, own in scores.items()}
    found = _ranks(task, {n: own for n, own in scores.items() if len(own) >= LEAST_SEEDS}, timed)
    return {
        name: Place(own, _lead(task, name, scores, timed), found.get(name))
        for name, own in scores.items()
    }


def _ranks(task: Task, scores: Mapping[str, Scores], timed: TimedRuns | None) -> dict[str, Rank]:
    common = sorted(set.intersection(*(set(own) for own in scores.values()))) if scores else []
    if len(common) < LEAST_SEEDS:
        return {}
    table = [[_signed(task, own[seed]) for seed in common] for own in scores.values()]
    resampled = None
    if timed is not None:
        resampled = torch.stack([timed.scores(name, common) for name in scores])
    found = ranks(torch.tensor(table, dtype=torch.float64), resampled)
    return dict(zip(scores, found, strict=True))


def _lead(
    task: Task, name: str, scores: Mapping[str, Scores], timed: TimedRuns | None
) -> Difference | None:
    own, reference = scores[name], scores[task.reference]
    seeds = [seed for seed in own if seed in reference]
    pairs = [(own[seed], reference[seed]) for seed in seeds]
    if (
        name == task.reference
        or not pairs
        or any(score is None for pair in pairs for score in pair)
    ):
        return None
    leads = [_signed(task, mine) - _signed(task, other) for mine, other in pairs]
    resampled = None if timed is None else timed.leads(name, seeds)
    return paired_difference(torch.tensor(leads, dtype=torch.float64), resampled)


def _signed(task: Task, score: float | None) -> float:
    if score is None:
        return -float("inf")
    return score if task.higher_wins else -score
