"""Make one page, or plain tables, of many runs."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from carms.lab.report.page import make_page
from carms.lab.report.sheets import to_latex, to_markdown
from carms.lab.report.table_texts import EXPLANATION, to_csv, to_sheet
from carms.lab.report.tables import make_tables, missing_tables
from carms.lab.runs.gather import Gathered, gather
from carms.lab.runs.store import write_atomically

__all__ = ["Report"]

SUFFIXES = {"html": "html", "markdown": "md", "csv": "csv", "latex": "tex"}
# Of what was left out, on the console; the page has all of it.
SHOWN = 10


@dataclass(frozen=True)
class Report:
    """Gather runs, and write their tables beside the paper's; as a page, with curves and pictures.

    Attributes:
        directories: of runs, or with runs anywhere below.
        out: the file; report.html, .md, .csv or .tex unless told.
        format: a page that needs nothing but a browser, or the tables alone.
    """

    directories: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path | None = None
    format: Literal["html", "markdown", "csv", "latex"] = "html"

    def run(self, console: Console) -> None:
        out = self.out or Path(f"report.{SUFFIXES[self.format]}")
        gathered = gather(self.directories)
        if self.format == "html":
            words = ["carms", "report", *map(str, self.directories), "--out", str(out)]
            text = make_page(gathered, shlex.join(words))
        else:
            text = _tables(gathered, self.format)
        out.parent.mkdir(parents=True, exist_ok=True)
        # Names of files need not be text.
        write_atomically(out, text.encode("utf-8", "backslashreplace"))
        for problem in gathered.problems[:SHOWN]:
            console.print(problem, markup=False, highlight=False)
        if len(gathered.problems) > SHOWN:
            console.print(f"and {len(gathered.problems) - SHOWN:,} more that were left out")
        finished = sum(run.result is not None for run in gathered.runs)
        console.print(f"{len(gathered.runs):,} runs, {finished:,} of them finished")
        console.print(f"written to {out}", markup=False, highlight=False)


def _tables(gathered: Gathered, name: str) -> str:
    tables = make_tables(gathered.runs)
    if name == "csv":
        return to_csv(tables)
    sheets = [to_sheet(table) for table in tables]
    missing = "; ".join(missing_tables(gathered.runs)) or "none"
    if name == "latex":
        head = f"% needs \\usepackage{{booktabs}}\n% {EXPLANATION}\n% Without runs: {missing}.\n\n"
        return head + "\n".join(map(to_latex, sheets))
    foot = f"\n{EXPLANATION}\n\nTables of the paper without runs: {missing}.\n"
    return "\n".join(map(to_markdown, sheets)) + foot
