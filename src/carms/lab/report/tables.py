"""Tables of runs like those of the paper, with its numbers beside ours."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import hypot
from statistics import fmean, stdev

from carms.lab.report.blocks import DEFAULTS, Block, changed_settings, make_blocks
from carms.lab.report.paper import Cell, cells, printed
from carms.lab.runs.gather import RecordedRun
from carms.lab.runs.records import PARTS
from carms.lab.runs.settings import LOGGING

__all__ = ["Row", "Table", "make_tables", "missing_tables"]

TABLE = ("task", "dataset", "network")
# Settings with columns of their own, and those that have no effect on a result.
ELSEWHERE = (*TABLE, "categories", "estimator", "seed", *LOGGING)


@dataclass(frozen=True)
class Row:
    """Runs that differ only in their seed, beside their cell of the paper.

    Attributes:
        part: train or test.
        categories: number of categories of a latent variable.
        estimator: its name.
        settings: the settings in which the row differs from others of its table, in words.
        runs: all runs, finished or not.
        paper: cell of the paper, if there is one.
        best: whether our mean is the highest of those that may be compared, and of several runs.
        paper_best: whether the paper's mean is its highest.
    """

    part: str
    categories: int
    estimator: str
    settings: str
    runs: Sequence[RecordedRun]
    paper: Cell | None
    best: bool = False
    paper_best: bool = False

    @property
    def values(self) -> list[float]:
        """Log likelihoods of the finished runs."""
        return [run.result.likelihood[self.part] for run in self.runs if run.result]

    @property
    def mean(self) -> float | None:
        """Mean over seeds."""
        return fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, if there are at least two."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Difference from the paper in units of the combined deviation."""
        if self.mean is None or self.deviation is None or self.paper is None:
            return None
        combined = hypot(self.deviation, self.paper.deviation)
        return (self.mean - self.paper.mean) / combined if combined else None

    @property
    def partial(self) -> str:
        """Which runs are not finished, and how far they are."""
        return "; ".join(
            f"seed {run.settings.seed} at step {run.step:,} of {run.settings.steps:,}"
            for run in self.runs
            if run.result is None
        )


@dataclass(frozen=True)
class Table:
    """Runs on one data set, train or test; ``common`` names their settings that are not default."""

    task: str
    dataset: str
    network: str
    part: str
    common: str
    rows: Sequence[Row]


def make_tables(runs: Iterable[RecordedRun]) -> list[Table]:
    """Make a table for each task, data set, network and part that has a run."""
    found: dict[tuple[str, str, str], list[Block]] = defaultdict(list)
    for block in make_blocks(runs):
        settings = block.settings
        found[settings.task, settings.dataset, settings.network].append(block)
    return [_table(key, part, own) for key, own in found.items() for part in PARTS]


def missing_tables(runs: Iterable[RecordedRun]) -> list[str]:
    """Names of the paper's tables for which there is no run."""
    here = {(run.settings.task, run.settings.dataset, run.settings.network) for run in runs}
    known = dict.fromkeys((task, dataset, network) for task, _, dataset, network, *_ in cells())
    return [", ".join(key) for key in known if key not in here]


def _table(key: tuple[str, str, str], part: str, blocks: Sequence[Block]) -> Table:
    firsts = [group[0].settings for block in blocks for group in block.groups]
    names = [name for name in DEFAULTS if name not in ELSEWHERE]
    varied = [name for name in names if len({getattr(one, name) for one in firsts}) > 1]
    rows = [row for block in blocks for row in _rows(block, part, varied)]
    rows = _with_paper_best([*rows, *_rows_without_runs(key, part, rows)])
    ours = {row.categories for row in rows if row.runs}
    rows.sort(key=lambda row: (row.categories not in ours, row.categories, not row.runs))
    common = changed_settings(firsts[0], [name for name in names if name not in varied])
    return Table(*key, part, common, rows)


def _rows(block: Block, part: str, varied: Sequence[str]) -> list[Row]:
    """Rows of runs that may be compared, the best marked."""
    rows = []
    for group in block.groups:
        settings = group[0].settings
        said, paper = changed_settings(settings, varied), printed(settings, part)
        rows.append(Row(part, settings.categories, settings.estimator, said, group, paper))
    means = [row.mean for row in rows if row.mean is not None]
    if len(means) < 2:
        return rows
    # A single run may be the best by chance alone.
    return [replace(row, best=row.mean == max(means) and len(row.values) > 1) for row in rows]


def _rows_without_runs(key: tuple[str, str, str], part: str, rows: Sequence[Row]) -> Iterator[Row]:
    """Cells of the paper's table that none of our rows stands beside."""
    here = {(row.categories, row.estimator) for row in rows if row.paper}
    for (task, of, *where, categories, estimator), cell in cells().items():
        if (task, of, *where) == (key[0], part, *key[1:]) and (categories, estimator) not in here:
            yield Row(part, categories, estimator, "", (), cell)


def _with_paper_best(rows: Sequence[Row]) -> list[Row]:
    """Mark the highest mean of the paper for each number of categories."""
    best: dict[int, float] = {}
    for row in rows:
        if row.paper:
            best[row.categories] = max(row.paper.mean, best.get(row.categories, row.paper.mean))
    return [
        replace(row, paper_best=row.paper is not None and row.paper.mean == best[row.categories])
        for row in rows
    ]
