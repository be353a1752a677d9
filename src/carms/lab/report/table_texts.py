"""Tables of runs as sheets to be read, and as CSV to be computed with."""

import csv
import io
from collections.abc import Iterable

from carms.lab.figures.colours import colour
from carms.lab.report.sheets import Field, Sheet, number_field
from carms.lab.report.tables import Row, Table

__all__ = ["EXPLANATION", "to_csv", "to_sheet"]

EXPLANATION = (
    "Log likelihoods are bounds in nats: mean ± standard deviation over seeds (with n - 1; none "
    "for a single run). Those of the paper are from 5 runs of 1,000,000 steps. The difference is "
    "ours minus the paper's, divided by the square root of the sum of the two squared deviations: "
    "this is the deviation of the difference between one run of ours and one of the paper's. Bold "
    "is the highest mean, before rounding, of runs that differ only in the estimator; the mean of "
    "a single run is never bold. Runs that are not finished are in no mean."
)
# Beginnings of text that a spreadsheet runs as a formula, also after it has dropped white space.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_sheet(table: Table) -> Sheet:
    """A table to be read, without the columns that would be empty."""
    rows = [_fields(row) for row in table.rows]
    optional = ("difference", "settings", "partial runs")
    empty = {name for name in optional if not any(row[name].text for row in rows)}
    if not any(row.paper for row in table.rows):
        empty.add("paper")
    kept = [name for name in rows[0] if name not in empty]
    caption = f"{table.task}, {table.dataset}, {table.network}: {table.part}"
    notes = [f"Ours with {table.common}."] if table.common else []
    notes += ["The paper has no such table."] if "paper" in empty else []
    return Sheet(caption, kept, [[row[name] for name in kept] for row in rows], " ".join(notes))


def to_csv(tables: Iterable[Table]) -> str:
    """All tables in one, with all digits."""
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


def _fields(row: Row) -> dict[str, Field]:
    nothing = "no finished run" if row.runs else "no runs"
    ours = Field(nothing)
    if row.mean is not None:
        ours = _measured(row.mean, row.deviation, 3, row.best)
    paper = Field("not in the paper")
    if row.paper is not None:
        paper = _measured(row.paper.mean, row.paper.deviation, 2, row.paper_best)
    return {
        "categories": number_field(row.categories),
        "estimator": Field(row.estimator, row.estimator, colour=colour(row.estimator)),
        "ours": ours,
        "runs": number_field(len(row.values)),
        "paper": paper,
        "difference": number_field(row.difference, "+.2f"),
        "settings": Field(row.settings, row.settings),
        "partial runs": Field(row.partial, row.partial),
    }


def _measured(mean: float, deviation: float | None, digits: int, best: bool) -> Field:
    beside = "" if deviation is None else f" ± {deviation:.{digits}f}"
    return Field(f"{mean:.{digits}f}{beside}", mean, number=True, best=best)
