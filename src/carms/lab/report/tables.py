"""Runs in tables like the paper's, and beside them."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot
from statistics import fmean, stdev

from carms.lab.figures.figures import colour
from carms.lab.report.blocks import DEFAULTS, Block, make_blocks, told
from carms.lab.report.paper import Cell, cells, printed
from carms.lab.report.sheets import Field, Sheet
from carms.lab.runs.gather import Run
from carms.lab.runs.records import PARTS

__all__ = ["EXPLANATION", "Row", "Table", "make_tables", "missing_tables", "to_csv", "to_sheet"]

EXPLANATION = (
    "Log likelihoods are bounds in nats: mean ± standard deviation over seeds (with n - 1; none "
    "for a single run). The paper's are of 5 runs of 1,000,000 steps. The difference is ours - "
    "paper in units of the combined deviation, the square root of the sum of the two squared "
    "deviations: the deviation of the difference between one run of ours and one of theirs. Bold "
    "is the highest mean, before rounding, among those that differ in nothing but the estimator. "
    "Partial runs are in no mean."
)

TABLE = ("task", "dataset", "network")
# Named in columns of their own, or without a part in any result.
ELSEWHERE = (
    *TABLE,
    *("categories", "estimator", "seed"),
    *("log_every", "eval_every", "checkpoint_every"),
)
# Beginnings of a cell that a spreadsheet runs, with those that it drops first.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Row:
    """Runs that differ only in their seed, beside their cell of the paper.

    Attributes:
        part: train or test.
        categories: of a latent variable.
        estimator: its name.
        settings: in which the row differs from others of its table.
        runs: finished or not.
        paper: the cell, if there is one.
        best: whether ours is the highest of those that may be compared.
        paper_best: whether the paper's is.
    """

    part: str
    categories: int
    estimator: str
    settings: str
    runs: Sequence[Run]
    paper: Cell | None
    best: bool = False
    paper_best: bool = False

    @property
    def values(self) -> list[float]:
        """Of the finished runs."""
        return [run.result.likelihood[self.part] for run in self.runs if run.result]

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Over seeds, if there are two."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """To the paper, in combined deviations."""
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
    """One part of one data set; ``common`` are the unusual settings of all its runs."""

    task: str
    dataset: str
    network: str
    part: str
    common: str
    rows: Sequence[Row]


def make_tables(runs: Iterable[Run]) -> list[Table]:
    """One for each task, data set, network and part that has a run."""
    found: dict[tuple[str, str, str], list[Block]] = defaultdict(list)
    for block in make_blocks(runs):
        settings = block.settings
        found[settings.task, settings.dataset, settings.network].append(block)
    return [_table(key, part, own) for key, own in found.items() for part in PARTS]


def missing_tables(runs: Iterable[Run]) -> list[str]:
    """Those of the paper for which there is no run at all."""
    here = {(run.settings.task, run.settings.dataset, run.settings.network) for run in runs}
    known = dict.fromkeys((task, dataset, network) for task, _, dataset, network, *_ in cells())
    return [", ".join(key) for key in known if key not in here]


def to_sheet(table: Table) -> Sheet:
    """To be read; without columns that would be empty."""
    rows = [_fields(row) for row in table.rows]
    empty = {
        name for name in ("settings", "partial runs") if not any(row[name].text for row in rows)
    }
    if not any(row.paper for row in table.rows):
        empty |= {"paper", "difference"}
    kept = [name for name in rows[0] if name not in empty]
    caption = f"{table.task}, {table.dataset}, {table.network}: {table.part}"
    notes = [f"Ours with {table.common}."] if table.common else []
    notes += ["The paper has no such table."] if "paper" in empty else []
    return Sheet(caption, kept, [[row[name] for name in kept] for row in rows], " ".join(notes))


def to_csv(tables: Iterable[Table]) -> str:
    """All tables in one, with every digit."""
    records = [_record(table, row) for table in tables for row in table.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in records)
    return text.getvalue()


def _inert(value: object) -> object:
    """Mark text that a spreadsheet would run as a formula, so that it stays text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _record(table: Table, row: Row) -> dict[str, object]:
    settings = (table.common, row.settings) if row.runs else ()
    return {
        "task": table.task,
        "dataset": table.dataset,
        "network": table.network,
        "part": table.part,
        "categories": row.categories,
        "estimator": row.estimator,
        "settings": ", ".join(filter(None, settings)),
        "runs": len(row.values),
        "mean": row.mean,
        "deviation": row.deviation,
        "best": row.best,
        "paper_mean": row.paper and row.paper.mean,
        "paper_deviation": row.paper and row.paper.deviation,
        "paper_best": row.paper_best,
        "difference": row.difference,
        "partial": row.partial,
    }


def _table(key: tuple[str, str, str], part: str, own: Sequence[Block]) -> Table:
    firsts = [group[0].settings for block in own for group in block.groups]
    names = [name for name in DEFAULTS if name not in ELSEWHERE]
    varied = [name for name in names if len({getattr(one, name) for one in firsts}) > 1]
    rows = [row for block in own for row in _rows(block, part, varied)]
    here = {(row.categories, row.estimator) for row in rows if row.paper}
    for (task, of, *where, categories, estimator), cell in cells().items():
        if (task, of, *where) == (key[0], part, *key[1:]) and (categories, estimator) not in here:
            rows.append(Row(part, categories, estimator, "", (), cell))
    best: dict[int, float] = defaultdict(lambda: -float("inf"))
    for row in rows:
        if row.paper:
            best[row.categories] = max(best[row.categories], row.paper.mean)
    marked = [
        replace(row, paper_best=True)
        if row.paper and row.paper.mean == best[row.categories]
        else row
        for row in rows
    ]
    marked.sort(key=lambda row: (row.categories, not row.runs))
    common = told(firsts[0], [name for name in names if name not in varied])
    return Table(*key, part, common, marked)


def _rows(block: Block, part: str, varied: Sequence[str]) -> list[Row]:
    """Of runs that may be compared, the best marked."""
    rows = []
    for group in block.groups:
        settings = group[0].settings
        said, paper = told(settings, varied), printed(settings, part)
        rows.append(Row(part, settings.categories, settings.estimator, said, group, paper))
    means = [row.mean for row in rows if row.mean is not None]
    # One alone is the best of nothing.
    return [replace(row, best=len(means) > 1 and row.mean == max(means)) for row in rows]


def _fields(row: Row) -> dict[str, Field]:
    nothing = "no finished run" if row.runs else "no runs"
    ours = Field(nothing)
    if row.mean is not None:
        ours = _measured(row.mean, row.deviation, 3, row.best)
    paper = Field("not in the paper")
    if row.paper is not None:
        paper = _measured(row.paper.mean, row.paper.deviation, 2, row.paper_best)
    difference = Field("")
    if row.difference is not None:
        difference = Field(f"{row.difference:+.2f}", row.difference, number=True)
    return {
        "categories": Field(f"{row.categories}", row.categories, number=True),
        "estimator": Field(row.estimator, row.estimator, colour=colour(row.estimator)),
        "ours": ours,
        "runs": Field(f"{len(row.values)}", len(row.values), number=True),
        "paper": paper,
        "difference": difference,
        "settings": Field(row.settings, row.settings),
        "partial runs": Field(row.partial, row.partial),
    }


def _measured(mean: float, deviation: float | None, digits: int, best: bool) -> Field:
    beside = "" if deviation is None else f" ± {deviation:.{digits}f}"
    return Field(f"{mean:.{digits}f}{beside}", mean, number=True, best=best)
