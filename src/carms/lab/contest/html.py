"""The page of the contest that needs nothing but a browser: its tables can be sorted."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from string import Template

import carms
from carms.lab.contest.contest import Contest
from carms.lab.contest.rules import HOURS, KEY, PICTURE, RULES
from carms.lab.contest.task import Task
from carms.lab.report.assets import read_asset, script_policy
from carms.lab.report.sheets import to_html
from carms.lab.runs.printable import printable

__all__ = ["to_page"]


def to_page(contest: Contest, picture: bytes, command: str) -> str:
    """The page as HTML.

    Args:
        contest: what was run.
        picture: contents of the picture, as PNG.
        command: command line that makes the page.
    """
    script = read_asset("report.js")
    lists = {
        "What is missing": contest.missing(),
        "Results of earlier versions": contest.limits(),
        "How it works": [f"{name}. {text}" for name, text in RULES.items()],
        "Machine and hours": [HOURS, *contest.machines_and_hours()],
    }
    return Template(read_asset("contest.html")).substitute(
        # No other script runs, whatever else should get into the page.
        policy=f"'{script_policy(script)}'",
        style=read_asset("report.css"),
        links=" ".join(f'<a href="#{task.name}">{task.name}</a>' for task in contest.begun),
        summaries="".join(map(to_html, [contest.winners(), *contest.summaries()])),
        picture=b64encode(picture).decode(),
        caption=escape(PICTURE),
        key=escape(KEY),
        tasks="".join(_section(contest, task) for task in contest.begun),
        lists="".join(_list("h2", title, lines) for title, lines in lists.items()),
        version=escape(carms.__version__),
        command=escape(command),
        script=script,
    )


def _section(contest: Contest, task: Task) -> str:
    return (
        f'<section id="{task.name}">\n<h2>{task.name}</h2>\n'
        f'<div class="sheets">\n{"".join(map(to_html, contest.sheets(task)))}</div>\n'
        f'<p class="note">{escape(contest.settings(task))}</p>\n'
        f"{_list('h3', 'Not applicable', contest.not_applicable(task))}"
        f"{_list('h3', 'Failed', contest.failures(task))}</section>\n"
    )


def _list(level: str, title: str, lines: Sequence[str]) -> str:
    """A list below its heading; nothing for no lines."""
    items = "".join(f"<li>{escape(printable(line))}</li>" for line in lines)
    return f"<{level}>{title}</{level}>\n<ul>{items}</ul>\n" if lines else ""
