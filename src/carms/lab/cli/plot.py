"""The command that draws runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import print_table
from carms.lab.cli.flags import RunPaths

if TYPE_CHECKING:
    from carms.lab.report.blocks import Block
    from carms.lab.runs.gather import RecordedRun

__all__ = ["Plot"]


@dataclass(frozen=True)
class Plot:
    """Draw the curves of runs, and print their results beside those of the paper.

    The curves are objective, test bound and gradient variance over the steps.

    Attributes:
        runs: directories of runs, or directories with runs anywhere below them
        out: picture to write, as PNG and as SVG
    """

    runs: RunPaths
    out: Path = Path("curves.png")

    def run(self, console: Console) -> None:
        """Gather the runs, print their tables and draw them."""
        with console.status("Loading"):
            from carms.lab.contest.contest import is_contest
            from carms.lab.figures.axes import picture_paths
            from carms.lab.report.blocks import make_blocks
            from carms.lab.report.curves import draw_curves
            from carms.lab.runs.gather import gather

        picture_paths(self.out)
        try:
            gathered = gather(self.runs)
        except ValueError as error:
            contests = [str(each) for each in self.runs if is_contest(each)]
            if not contests:
                raise
            raise ValueError(f"{contests[0]} is a contest: carms report draws it") from error
        for problem in gathered.problems:
            console.print(problem, style="yellow")
        blocks = make_blocks(gathered.runs, self.runs)
        console.print("Log likelihood (a bound, in nats); paper: its value after 10^6 steps")
        for block in blocks:
            print_table(console, _table(block))
        for written in draw_curves(blocks, self.out):
            console.print(f"written to {written}")


def _table(block: "Block") -> Table:
    from carms.lab.report.blocks import headline

    title = "; ".join(filter(None, headline(block)))
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("estimator", overflow="fold")
    for heading in ("seed", "step"):
        table.add_column(heading, no_wrap=True)
    for heading in ("train", "paper", "test", "paper", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in block.runs:
        table.add_row(*_row(run))
    return table


def _row(run: "RecordedRun") -> list[str]:
    from carms.lab.report.blocks import variant
    from carms.lab.report.paper import printed
    from carms.lab.runs.records import PARTS

    cells = []
    for part in PARTS:
        cells.append(f"{run.result.likelihood[part]:.2f}" if run.result else "-")
        paper = printed(run.settings, part)
        cells.append(f"{paper.mean:.2f}" if paper else "-")
    rate = "-" if run.milliseconds is None else f"{run.milliseconds:.2f}"
    return [variant(run.settings), str(run.settings.seed), f"{run.step:,}", *cells, rate]
