"""Put the leads of the contest into README and into "Choose an estimator", from its results."""

import argparse
from pathlib import Path

from pages import put_table

from carms.estimators import find
from carms.lab.contest.contest import read_contest
from carms.lab.contest.plan import missing_runs
from carms.lab.contest.standings import Place, Standing
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


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = read_table()
    for page in PAGES:
        put_table(page, "contest", rows)


if __name__ == "__main__":
    main()
