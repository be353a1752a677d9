"""Tables of the contest, for each task and over all tasks: at equal time and at equal steps."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from carms.lab.contest.standings import Place, Standing
from carms.lab.contest.statistics import LEAST_SEEDS, Rank
from carms.lab.contest.task import Entry, Task
from carms.lab.contest.times import Pace
from carms.lab.report.sheets import Field, Sheet, number_field

__all__ = ["summary_sheet", "task_sheets", "winners_sheet"]

_NOTHING = Field("-")
# Headings of the fields of `_name`.
_NAME = ("estimator", "bias")
Moment = Literal["at_steps", "at_time"]
_TITLES: dict[Moment, str] = {"at_time": "equal time", "at_steps": "equal steps"}


def task_sheets(task: Task, standings: Sequence[Standing]) -> list[Sheet]:
    """Tables of a task at equal time and at equal steps, one row for each entry that took part."""
    better = "higher" if task.higher_wins else "lower"
    note = f"Score: {task.measure}, {better} is better."
    places = ["score", f"lead over {task.reference}", "verdict", "rank"]
    at_time = [
        [
            *_name(each.entry),
            _time(each.pace),
            number_field(each.judged_at, ".2f", "-"),
            *_place_fields(each.at_time, task, each),
        ]
        for each in _ordered(standings, "at_time")
    ]
    at_steps = [
        [
            *_name(each.entry),
            number_field(each.entry.evaluations, ".3g"),
            _rate(each, task),
            _seeds(each),
            *_place_fields(each.at_steps, task, each),
        ]
        for each in _ordered(standings, "at_steps")
    ]
    times, settings = ["time", "judged at"], ["evaluations", "rate", "seeds"]
    return [
        Sheet(f"{task.title}: equal time", [*_NAME, *times, *places], at_time, note),
        Sheet(f"{task.title}: equal steps", [*_NAME, *settings, *places], at_steps, note),
    ]


def winners_sheet(tasks: Sequence[Task], standings: Mapping[str, Sequence[Standing]]) -> Sheet:
    """What is better than the reference of each task, unbiased and biased."""
    rows = []
    for task in tasks:
        own = standings[task.name]
        kinds = [(moment, unbiased) for unbiased in (True, False) for moment in _TITLES]
        named = [_winners(own, moment, unbiased) for moment, unbiased in kinds]
        words = [Field(text, text) for text in (task.name, task.reference, task.title)]
        rows.append([*words[:2], *named, words[2]])
    columns = [f"{kind}, {title}" for kind in ("unbiased", "biased") for title in _TITLES.values()]
    headings = ["task", "reference", *columns, "what is learned"]
    return Sheet("Better than the reference", headings, rows)


def _winners(standings: Sequence[Standing], moment: Moment, unbiased: bool) -> Field:
    if all(each.at_steps.rank is None for each in standings):
        return Field("too few seeds yet")
    places: dict[Entry, Place] = {each.entry: getattr(each, moment) for each in standings}
    if all(place.rank is None for place in places.values()):
        return Field("no times yet")
    better = [entry for entry, place in places.items() if place.wins]
    names = ", ".join(entry.name for entry in better if entry.unbiased == unbiased)
    return Field(names, names) if names else Field("none")


def summary_sheet(
    tasks: Sequence[Task], standings: Mapping[str, Sequence[Standing]], moment: Moment
) -> Sheet:
    """Verdicts and ranks of every estimator over all tasks that have a comparison."""
    entries: dict[str, Entry] = {}
    places: dict[str, dict[str, Place]] = defaultdict(dict)
    for task in tasks:
        for each in standings[task.name]:
            place: Place = getattr(each, moment)
            if place.rank is not None:
                entries[each.entry.name] = each.entry
                places[each.entry.name][task.name] = place
    compared = [task for task in tasks if any(task.name in found for found in places.values())]
    rows = []
    for name, found in sorted(places.items(), key=lambda item: _merit(item[1])):
        verdicts = _verdicts(found)
        # The reference has no verdicts.
        counts = [
            number_field(verdicts[word]) if verdicts else _NOTHING
            for word in ("better", "not distinguishable", "worse", "no score")
        ]
        ranks = [_rank(found[task.name]) if task.name in found else _NOTHING for task in compared]
        rows.append([*_name(entries[name]), *counts, *ranks])
    headings = [*_NAME, "better", "not distinguishable", "worse", "no score"]
    headings += [f"rank: {task.name}" for task in compared]
    return Sheet(f"All tasks with categorical variables at {_TITLES[moment]}", headings, rows)


def _verdicts(places: Mapping[str, Place]) -> Counter[str]:
    """How often which verdict was given; the reference has none."""
    found = Counter[str]()
    for place in places.values():
        if any(score is None for score in place.scores.values()):
            found["no score"] += 1
        elif place.lead is not None:
            found[place.lead.verdict] += 1
    return found


def _merit(places: Mapping[str, Place]) -> tuple[float, float]:
    """Tasks won less tasks lost, then the mean rank; the best is the least."""
    verdicts = _verdicts(places)
    ranks = [place.rank.place for place in places.values() if place.rank is not None]
    lost = verdicts["worse"] + verdicts["no score"]
    return lost - verdicts["better"], statistics.mean(ranks)


def _ordered(standings: Sequence[Standing], moment: Moment) -> list[Standing]:
    """Standings by their ranks at a moment; those without one are last."""

    def key(standing: Standing) -> tuple[float, str]:
        place: Place = getattr(standing, moment)
        return math.inf if place.rank is None else place.rank.place, standing.entry.name

    return sorted(standings, key=key)


def _time(pace: Pace | None) -> Field:
    if pace is None:
        return _NOTHING
    time = pace.whole
    text = f"{time.value:.2f} ({time.low:.2f} to {time.high:.2f})"
    return Field(text, time.value, number=True)


def _rate(standing: Standing, task: Task) -> Field:
    """The rate, and whether it is at an end of those that were tried."""
    rate = standing.rate
    if rate is None:
        return _NOTHING
    ends = {min(task.rates): " (lowest)", max(task.rates): " (highest)"}
    return Field(f"{rate:g}{ends.get(rate, '')}", rate, number=True)


def _seeds(standing: Standing) -> Field:
    failed = sum(bool(result.error) for result in standing.results)
    total = len(standing.results)
    if standing.hopeless:
        return Field("failed at every rate", -1)
    return Field(f"{total}, {failed} failed" if failed else str(total), total, number=True)


def _name(entry: Entry) -> list[Field]:
    bias = "" if entry.unbiased else "biased"
    return [Field(entry.name, entry.name), Field(bias, bias)]


def _place_fields(place: Place, task: Task, standing: Standing) -> list[Field]:
    is_reference = standing.entry.name == task.reference
    scores = [score for score in place.scores.values() if score is not None]
    if not place.scores:
        return [_NOTHING] * 4
    if len(scores) < len(place.scores):
        failed = standing.hopeless or any(result.error for result in standing.results)
        word = "failed" if failed else "not judged in time"
        return [Field(word), _NOTHING, Field(word), _rank(place)]
    mean = statistics.mean(scores)
    spread = f" ± {statistics.stdev(scores):.2g}" if len(scores) > 1 else ""
    score = Field(f"{mean:.4g}{spread}", mean, number=True)
    lead = place.lead
    if is_reference or lead is None:
        return [score, _NOTHING, Field("reference") if is_reference else _NOTHING, _rank(place)]
    text = f"{lead.mean:+.3g}"
    if lead.seeds >= LEAST_SEEDS:
        text += f" ({lead.low:+.3g} to {lead.high:+.3g})"
    verdict = Field(lead.verdict, lead.verdict, best=lead.verdict == "better")
    return [score, Field(text, lead.mean, number=True), verdict, _rank(place)]


def _rank(place: Place) -> Field:
    rank: Rank | None = place.rank
    if rank is None:
        return _NOTHING
    return Field(f"{rank.place} ({rank.low} to {rank.high})", rank.place, number=True)
