"""The page of the contest for the site."""

import shlex
from collections.abc import Iterable
from urllib.parse import quote

from carms.lab.contest.contest import Contest
from carms.lab.contest.rules import HOURS, KEY, PICTURE, RULES
from carms.lab.contest.task import Task
from carms.lab.report.sheets import escape_markdown, to_markdown

__all__ = ["to_page"]


def to_page(contest: Contest, picture: str, command: str) -> str:
    """The page as Markdown.

    Args:
        contest: what was run.
        picture: name of the picture, which is beside the page; empty if there is none.
        command: command line that makes the page.
    """
    address = quote(picture, errors="surrogateescape")
    limits = contest.limits()
    parts = [
        "# The contest\n",
        "Which estimator trains best? Every estimator that applies to a task is trained with the "
        "most samples that a budget of evaluations of `f` for a step allows, and compared with the "
        "reference at equal time and at equal steps. One that needs more evaluations than the "
        "budget is compared at equal time only.\n",
        to_markdown(contest.winners()),
        "The commands that made this page:\n",
        f"    {shlex.join(['carms', 'sweep', 'contest', '--out', str(contest.folder)])}\n"
        f"    {command}\n",
        *map(to_markdown, contest.summaries()),
        f"![{PICTURE}]({address})\n\n{KEY}\n" if picture else "",
        *[_section(contest, task) for task in contest.begun],
        "## What is missing\n",
        _listed(contest.missing()),
        *(["## Results of earlier versions\n", _listed(limits)] if limits else []),
        "## How it works\n",
        *[f"- *{name}.* {text}" for name, text in RULES.items()],
        "",
        "## Machine and hours\n",
        f"{HOURS}\n",
        _listed(contest.machines_and_hours()),
    ]
    return "\n".join(parts)


def _section(contest: Contest, task: Task) -> str:
    lines = [
        f"## {task.name}\n",
        *map(to_markdown, contest.sheets(task)),
        f"{contest.settings(task)}\n",
    ]
    for title, found in (
        ("Not applicable", contest.not_applicable(task)),
        ("Failed", contest.failures(task)),
    ):
        lines += [f"{title}:\n", _listed(found)] if found else []
    return "\n".join(lines)


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"- {escape_markdown(line)}\n" for line in lines)
