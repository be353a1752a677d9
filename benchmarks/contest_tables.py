"""Put the leads of the contest into README and into "Choose an estimator", from its results."""

import argparse
from pathlib import Path

import torch
from pages import put_table
from timing import print_table

from carms.estimators import find
from carms.lab.contest.contest import Contest, read_contest
from carms.lab.contest.plan import missing_runs
from carms.lab.contest.standings import Place, Standing
from carms.lab.contest.statistics import paired_difference
from carms.lab.contest.task import Task
from carms.lab.contest.tasks import TASKS

RESULTS = Path("docs/results/contest")
PAGES = (Path("README.md"), Path("docs/how-to/choose.md"))
ESTIMATORS = (
    "carms-t",
    "carms-s",
    "arms",
    "ridge",
    "double-cv",
    "rebar",
    "unord",
    "reinmax",
    "reinmax-cv",
    "gr-mc",
    "gumbel-softmax",
    "gapped-st",
    "straight-through",
    "reinforce",
)


def lead(place: Place) -> str:
    """The lead over the reference: bold if better, in brackets if not distinguishable."""
    if any(score is None for score in place.scores.values()):
        return "no score"
    if place.lead is None:
        return "-"
    text = f"{place.lead.mean:+.2g}"
    return {
        "better": f"**{text}**",
        "worse": text,
        "not distinguishable": f"({text})",
        "too few seeds": "-",
    }[place.lead.verdict]


def table(standings: dict[str, dict[str, Standing]]) -> list[list[str]]:
    """Rows of Markdown: an estimator each, and a column for each task, the costliest first.

    A cell has the lead at equal steps, and then the one at equal time.
    """
    header = ["lead over `loorf` in training: at equal steps; at equal time"]
    rows = [[f"`{name}`{'' if find(name).unbiased else ', biased'}"] for name in ESTIMATORS]
    for task in reversed(TASKS.values()):
        if task.choices != "categories" or task.name not in standings:
            continue
        header.append(f"{task.name}, {task.unit}")
        for name, row in zip(ESTIMATORS, rows, strict=True):
            found = standings[task.name].get(name)
            row.append(f"{lead(found.at_steps)}; {lead(found.at_time)}" if found else "-")
    return [header, *rows]


def read_table() -> list[list[str]]:
    """The table of the tasks that are complete."""
    contest = read_contest(RESULTS)
    return table(
        {
            task.name: {each.entry.name: each for each in contest.standings[task.name]}
            for task in contest.begun
            if contest.is_timed(task) and not missing_runs(task, contest.results[task.name])
        }
    )


def show_leads(contest: Contest, name: str) -> None:
    """Print the leads of an estimator over all others that are unbiased, by the seeds alone: in
    these intervals times have no error.
    """
    for task in contest.begun:
        standings = {each.entry.name: each for each in contest.standings[task.name]}
        if name not in standings:
            continue
        own = standings.pop(name)
        rows = [
            [
                other,
                *lead_over(task, own.at_steps, each.at_steps),
                *lead_over(task, own.at_time, each.at_time),
            ]
            for other, each in standings.items()
            if each.entry.unbiased
        ]
        header = ["over", "equal steps", "verdict", "equal time", "verdict"]
        print_table(f"{task.name}: lead of {name}, {task.unit}", header, rows)


def lead_over(task: Task, own: Place, other: Place) -> list[str]:
    """The lead with its interval, and the verdict; dashes if not all seeds of both have a score."""
    pairs = [(own.scores[seed], other.scores[seed]) for seed in own.scores if seed in other.scores]
    if own.rank is None or other.rank is None or any(None in pair for pair in pairs):
        return ["-", "-"]
    sign = 1 if task.higher_wins else -1
    lead = paired_difference(torch.tensor([sign * (a - b) for a, b in pairs], dtype=torch.float64))
    return [f"{lead.mean:+.2g} ({lead.low:+.2g} to {lead.high:+.2g})", lead.verdict]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--leads-of", metavar="NAME", help="only print the leads of this estimator over the others"
    )
    options = parser.parse_args()
    if options.leads_of:
        show_leads(read_contest(RESULTS), options.leads_of)
        return
    rows = read_table()
    for page in PAGES:
        put_table(page, "contest", rows)


if __name__ == "__main__":
    main()
