"""Where each entry of a task stands, from the results that there are."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

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
from carms.lab.contest.times import Pace, Times

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
        pace: times relative to the reference; None if they were not measured.
        judged_at: time of the judgement at equal time, relative to a run of the reference; None
            if there is none.
        at_steps: score after all steps; not compared if a step takes more than the budget.
        at_time: score when the reference has made all its steps; not compared without times.
    """

    entry: Entry
    rate: float | None
    results: Sequence[Result]
    failures: Sequence[str]
    hopeless: bool
    pace: Pace | None
    judged_at: float | None
    at_steps: Place
    at_time: Place


def make_standings(
    task: Task, results: Mapping[Run, Result], times: Times | None = None
) -> list[Standing]:
    """The standings of all entries that can take part, in order of their names."""
    rates = chosen_rates(task, results)
    entries = [entry for entry in task.entries() if not entry.reason]
    finals = {entry.name: _finals(entry, rates, results) for entry in entries}
    paces = {name: times.pace(name, task.reference) if times else None for name in finals}
    hopeless = {name for name, rate in rates.items() if rate is None}
    seeds = [result.run.seed for result in finals[task.reference]]

    def scores(name: str, judgements: int) -> Scores:
        # Without a rate, an entry counts as failed with every seed.
        return dict.fromkeys(seeds) if name in hopeless else _scores(finals[name], judgements)

    within_budget = [entry.name for entry in entries if entry.evaluations <= task.evaluations]
    every_judgement = len(task.judged_steps)
    at_steps = _places(task, {name: scores(name, every_judgement) for name in within_budget})
    ended = {name for name, runs in finals.items() if any(not result.error for result in runs)}
    # What always fails needs no time to be the last.
    timed = [name for name, pace in paces.items() if pace or name not in ended]
    judged = {name: _judgements_in_time(task, paces[name]) for name in timed}
    at_time = {}
    if paces[task.reference]:
        moments = [
            _places(task, {name: scores(name, judged[name][k]) for name in timed}) for k in range(3)
        ]
        at_time = {name: _hull([places[name] for places in moments]) for name in moments[0]}
    return [
        Standing(
            entry,
            rates.get(entry.name),
            finals[entry.name],
            _failures(entry, results),
            entry.name in hopeless,
            paces[entry.name],
            _moment(task, paces[entry.name]) if entry.name in ended else None,
            at_steps.get(entry.name, Place(_scores(finals[entry.name], every_judgement))),
            at_time.get(entry.name, Place({})),
        )
        for entry in entries
    ]


def curve(task: Task, standing: Standing) -> list[tuple[float, float]]:
    """Mean score over the seeds that did not fail, against time in runs of the reference, at each
    judgement.
    """
    runs = [result for result in standing.results if not result.error]
    if standing.pace is None or not runs:
        return []
    means = (statistics.mean(scores) for scores in zip(*(r.scores for r in runs), strict=True))
    times = (standing.pace.after(step / task.steps) for step in task.judged_steps)
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


def _judgements_in_time(task: Task, pace: Pace | None) -> list[int]:
    """The numbers of the judgements at equal time: by the measured time of a whole run, and by both
    ends of its interval. 0 is the start.
    """
    if pace is None:
        return [0] * 3
    whole = pace.whole
    times = (whole.value, whole.low, whole.high)
    return [_nearest_judgement(task, pace, max(time, 0) / whole.value) for time in times]


def _nearest_judgement(task: Task, pace: Pace, factor: float = 1.0) -> int:
    """The judgement nearest to the moment when the reference has ended, if all times of an entry
    are multiplied by a factor.
    """
    moments = [factor * pace.after(step / task.steps) for step in (0, *task.judged_steps)]
    # The later one of two that are as near.
    return min(range(len(moments)), key=lambda k: (abs(moments[k] - 1), -k))


def _moment(task: Task, pace: Pace | None) -> float | None:
    """When the judgement at equal time was, relative to a run of the reference."""
    if pace is None or not (judgement := _nearest_judgement(task, pace)):
        return None
    return pace.after(task.judged_steps[judgement - 1] / task.steps)


def _scores(runs: Sequence[Result], judgements: int) -> Scores:
    """Scores by seed after a number of judgements; None if there was none, or if it failed, be it
    later.
    """
    return {
        result.run.seed: result.scores[judgements - 1] if judgements and not result.error else None
        for result in sorted(runs, key=lambda result: result.run.seed)
    }


def _places(task: Task, scores: Mapping[str, Scores]) -> dict[str, Place]:
    """Compare all that have scores, and rank those with enough seeds on the seeds of all these."""
    scores = {name: own for name, own in scores.items() if own}
    if task.reference not in scores:
        return {name: Place(own) for name, own in scores.items()}
    found = _ranks(task, {n: own for n, own in scores.items() if len(own) >= LEAST_SEEDS})
    return {
        name: Place(own, _lead(task, name, scores), found.get(name)) for name, own in scores.items()
    }


def _hull(places: Sequence[Place]) -> Place:
    """The first of these places, with intervals that reach over those of all."""
    first, leads, ranks = places[0], [each.lead for each in places], [each.rank for each in places]
    lead, rank = first.lead, first.rank
    if lead is not None:
        # A lead may be missing because nothing was judged as early.
        low = min(-torch.inf if each is None else each.low for each in leads)
        lead = replace(lead, low=low, high=max(each.high for each in leads if each))
    if rank is not None:
        low, high = (
            min(each.low for each in ranks if each),
            max(each.high for each in ranks if each),
        )
        rank = replace(rank, low=low, high=high)
    return Place(first.scores, lead, rank)


def _ranks(task: Task, scores: Mapping[str, Scores]) -> dict[str, Rank]:
    common = sorted(set.intersection(*(set(own) for own in scores.values()))) if scores else []
    if len(common) < LEAST_SEEDS:
        return {}
    table = [[_signed(task, own[seed]) for seed in common] for own in scores.values()]
    found = ranks(torch.tensor(table, dtype=torch.float64))
    return dict(zip(scores, found, strict=True))


def _lead(task: Task, name: str, scores: Mapping[str, Scores]) -> Difference | None:
    own, reference = scores[name], scores[task.reference]
    pairs = [(own[seed], reference[seed]) for seed in own if seed in reference]
    if (
        name == task.reference
        or not pairs
        or any(score is None for pair in pairs for score in pair)
    ):
        return None
    leads = [_signed(task, mine) - _signed(task, other) for mine, other in pairs]
    return paired_difference(torch.tensor(leads, dtype=torch.float64))


def _signed(task: Task, score: float | None) -> float:
    if score is None:
        return -float("inf")
    return score if task.higher_wins else -score
