"""One page about many runs, which needs only a browser."""

import json
from collections.abc import Sequence
from html import escape
from string import Template

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

import carms
from carms.lab.report.assets import read_asset, script_policy
from carms.lab.report.blocks import make_blocks
from carms.lab.report.inventory import list_runs, list_settings, list_versions, listed
from carms.lab.report.pictures import embed_pictures
from carms.lab.report.plots import Panel, make_panels
from carms.lab.report.sheets import to_html
from carms.lab.report.table_texts import EXPLANATION, to_sheet
from carms.lab.report.tables import make_tables, missing_tables
from carms.lab.runs.command_line import command_of
from carms.lab.runs.gather import Gathered, RecordedRun

__all__ = ["make_page"]


def make_page(gathered: Gathered, command: str) -> str:
    """The page as HTML; ``command`` is printed on it as the command that makes it."""
    runs, problems = gathered
    blocks = make_blocks(runs)
    panels = make_panels(blocks)
    scripts = {"plotly": get_plotlyjs(), "script": read_asset("report.js")}
    # The browser runs only these scripts, whatever else gets into the page.
    return Template(read_asset("report.html")).substitute(
        scripts,
        policy=" ".join(f"'{script_policy(text)}'" for text in scripts.values()),
        style=read_asset("report.css"),
        data=_json([panel.plots for panel in panels]),
        summary=_summary(runs),
        problems=_problems(problems),
        explanation=escape(EXPLANATION),
        tables="".join(to_html(to_sheet(table)) for table in make_tables(runs)),
        missing=_missing(runs),
        panels="".join(_panel(number, panel) for number, panel in enumerate(panels)),
        pictures=embed_pictures(blocks),
        settings=to_html(list_settings(runs)),
        versions=to_html(list_versions(runs)),
        runs=to_html(list_runs(runs)),
        commands=escape("\n".join(command_of(run.settings, run.path) for run in runs)),
        command=escape(command),
        version=escape(carms.__version__),
    )


def _json(data: object) -> str:
    """JSON for a script element, without the ``</script>`` that would end it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _summary(runs: Sequence[RecordedRun]) -> str:
    finished = sum(run.result is not None for run in runs)
    facts = {
        "runs": f"{len(runs):,}",
        "finished": f"{finished:,}",
        "partial": f"{len(runs) - finished:,}",
        "tasks": listed(run.settings.task for run in runs),
        "data sets": listed(run.settings.dataset for run in runs),
        "estimators": listed(run.settings.estimator for run in runs),
    }
    return "".join(
        f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in facts.items()
    )


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in problems)
    opened = " open" if len(problems) <= 10 else ""
    title = f"{len(problems):,} left out, with reasons"
    return f'<details class="problems"{opened}><summary>{title}</summary><ul>{items}</ul></details>'


def _missing(runs: Sequence[RecordedRun]) -> str:
    names = escape("; ".join(missing_tables(runs)))
    return f'<p class="note">No runs for these tables of the paper: {names}.</p>' if names else ""


def _panel(number: int, panel: Panel) -> str:
    notes = [f"{panel.runs:,} run{'s' if panel.runs > 1 else ''}"]
    notes += [panel.settings] if panel.settings else []
    if panel.thinned:
        notes.append("curves thinned to {1:,} of up to {0:,} logged steps".format(*panel.thinned))
    plots = "".join(
        f"<figure><figcaption>{escape(plot['title'])}</figcaption>"
        f'<div class="plot" data-panel="{number}" data-plot="{place}"></div></figure>'
        for place, plot in enumerate(panel.plots)
    )
    return (
        f'<section class="panel"><h3>{escape(panel.title)}</h3>'
        f'<p class="note">{escape("; ".join(notes))}</p>'
        f'<div class="plots">{plots or "Nothing is logged yet."}</div></section>\n'
    )
