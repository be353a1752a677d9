"""The command that makes one page, or plain tables, of many runs."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console

from carms.lab.cli.flags import RunPaths, explained, named
from carms.lab.cli.words import counted

if TYPE_CHECKING:
    from carms.lab.runs.gather import Gathered

__all__ = ["Report"]

ENDINGS = {"html": ".html", "markdown": ".md", "csv": ".csv", "latex": ".tex"}
# The number of problems that the console shows; the page has all of them.
SHOWN = 10


@dataclass(frozen=True)
class Report:
    """Gather runs, and write their tables beside those of the paper, with curves and pictures.

    Attributes:
        directories: directories of runs, or directories with runs anywhere below them; or the one
            directory of the contest
        out: file to write, with the ending of its format: .html, .md, .csv or .tex (default:
            report.html, or the ending of --format); the contest as markdown also writes its
            picture, to the same name with the ending .png
        format: one of html (a page for a browser), markdown, csv and latex (the tables alone);
            the contest as html or markdown (default: by the ending of --out)
    """

    directories: RunPaths
    out: Annotated[Path | None, explained] = None
    format: Annotated[
        Literal["html", "markdown", "csv", "latex"] | None, named("FORMAT"), explained
    ] = None

    def run(self, console: Console) -> None:
        """Gather the runs, write the file, and print what was left out."""
        with console.status("Loading"):
            from carms.lab.contest.contest import is_contest
            from carms.lab.report.page import make_page
            from carms.lab.runs.gather import gather
            from carms.lab.runs.writing import check_writable, write_atomically

        out = self.out or Path("report" + ENDINGS[self.format or "html"])
        check_writable(out)
        name = _format_of(out, self.format)
        contests = [each for each in self.directories if is_contest(each)]
        if contests:
            if len(self.directories) > 1:
                raise ValueError(f"{contests[0]} is a contest: report it by itself")
            self._report_contest(console, out, name)
            return
        gathered = gather(self.directories)
        if name == "html":
            words = ["carms", "report", *map(str, self.directories), "--out", str(out)]
            text = make_page(gathered, shlex.join(words))
        else:
            text = _tables(gathered, name)
        out.parent.mkdir(parents=True, exist_ok=True)
        # A name of a file may hold bytes that are no text.
        write_atomically(out, text.encode("utf-8", "backslashreplace"))
        for problem in gathered.problems[:SHOWN]:
            console.print(problem, markup=False, highlight=False)
        if len(gathered.problems) > SHOWN:
            console.print(f"and {len(gathered.problems) - SHOWN:,} more that were left out")
        finished = sum(run.result is not None for run in gathered.runs)
        console.print(f"{counted(len(gathered.runs), 'run')}, {finished:,} finished")
        console.print(f"written to {out}", markup=False, highlight=False)

    def _report_contest(self, console: Console, out: Path, name: str) -> None:
        from carms.lab.cli.contest import report_contest
        from carms.lab.runs.gather import find_runs

        (folder,) = self.directories
        words = ["carms", "report", str(folder), "--format", name, "--out", str(out)]
        report_contest(console, folder, out, name, shlex.join(words))
        runs, _ = find_runs([folder])
        if runs:
            beside = f"{counted(len(runs), 'run')} beside the contest in {folder}"
            console.print(f"{beside}: left out, give their own directories", highlight=False)


def _format_of(out: Path, wanted: str | None) -> str:
    """The format of a report by its ending; another ending is refused, because it may be that of a
    file which is not to be overwritten.
    """
    formats = {ending: name for name, ending in ENDINGS.items()}
    name = formats.get(out.suffix.lower())
    if wanted and name != wanted:
        raise ValueError(f"a report as {wanted} ends in {ENDINGS[wanted]}, got {str(out)!r}")
    if name is None:
        raise ValueError(f"a report ends in one of {', '.join(formats)}, got {str(out)!r}")
    return name


def _tables(gathered: "Gathered", name: str) -> str:
    from carms.lab.report.sheets import to_latex, to_markdown
    from carms.lab.report.table_texts import EXPLANATION, to_csv, to_sheet
    from carms.lab.report.tables import make_tables, missing_tables

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
