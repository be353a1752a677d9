"""The page of the contest that needs nothing but a browser: its tables can be sorted."""

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from string import Template

import carms
from carms.lab.contest.contest import Contest
from carms.lab.contest.rules import RULES
from carms.lab.report.assets import read_asset, script_policy
from carms.lab.report.sheets import to_html
from carms.lab.runs.printable import printable

__all__ = ["to_page"]

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '$policy'; \
style-src 'unsafe-inline'; img-src data:">
<title>carms contest</title>
<style>
$style
</style>
</head>
<body>
<h1>The contest</h1>
<main>
$headlines<div class="sheets">
$tables
</div>
<h2>Score against time</h2>
<img src="data:image/png;base64,$picture" alt="Score against processor time" style="width: 100%">
$lists
</main>
<footer>carms $version, made by <code>$command</code></footer>
<script type="application/json" id="data">[]</script>
<script>$script</script>
</body>
</html>
""")


def to_page(contest: Contest, picture: bytes, command: str) -> str:
    """The page as HTML.

    Args:
        contest: what was run.
        picture: contents of the picture, as PNG.
        command: command line that makes the page.
    """
    script = read_asset("report.js")
    of_tasks = [sheet for task in contest.begun for sheet in contest.sheets(task)]
    sheets = [*contest.summaries(), *of_tasks]
    lists = {
        "What is missing": contest.missing(),
        **{f"Not applicable: {task.name}": contest.not_applicable(task) for task in contest.begun},
        **{f"Failed: {task.name}": contest.failures(task) for task in contest.begun},
        "How it works": [f"{name}. {text}" for name, text in RULES.items()],
        "Machine and hours": contest.machines_and_hours(),
    }
    return PAGE.substitute(
        # No other script runs, whatever else should get into the page.
        policy=script_policy(script),
        style=read_asset("report.css"),
        headlines=_list("Better than the reference", contest.winners()),
        tables="".join(map(to_html, sheets)),
        picture=b64encode(picture).decode(),
        lists="".join(_list(title, lines) for title, lines in lists.items() if lines),
        version=escape(carms.__version__),
        command=escape(command),
        script=script,
    )


def _list(title: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(printable(line))}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2>\n<ul>{items}</ul>\n"
