"""Rows of the results: printed, written as CSV, and put on a page."""

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from drawing import kind_of
from pages import put_table
from timing import print_table

from models.problems import IMAGES, MODELS, SAMPLES, make

# What the variance of this estimator at equal evaluations should reach.
LIMITED = "carms-t"
LIMITS = {"mnist-linear": 0.12, "mnist-nonlinear": 0.15}

Table = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True)
class Row:
    """One estimator on one model; times and variances are relative to LOORF."""

    model: str
    estimator: str
    evaluations: float
    variance: float
    time: float
    variance_at_equal_time: float
    bias: str

    @property
    def label(self) -> str:
        return self.estimator

    @property
    def kind(self) -> str:
        made = make(self.estimator)
        return kind_of(made.unbiased, made.black_box)

    def cells(self) -> dict[str, str]:
        """Text of each column."""
        return {
            **{name: str(value) for name, value in asdict(self).items()},
            "evaluations": f"{self.evaluations:g}",
            "variance": f"{self.variance:.3g}",
            "time": f"{self.time:.2f}",
            "variance_at_equal_time": f"{self.variance_at_equal_time:.3g}",
        }


def write(rows: list[Row], path: Path) -> Table:
    """Add rows to the CSV table of the estimators' pages, and return the whole table."""
    columns = [field.name for field in fields(Row)]
    table: Table = {}
    if path.exists():
        with path.open() as lines:
            table = {(row["model"], row["estimator"]): row for row in csv.DictReader(lines)}
    table |= {(row.model, row.estimator): row.cells() for row in rows}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[key] for key in sorted(table))
    return table


def write_page(table: Table, path: Path) -> None:
    """Put the main figures of the table on a page: unbiased estimators first, the best first."""
    columns = ("variance", "variance_at_equal_time", "bias")
    models = list(reversed(MODELS))
    header = [""]
    for name in models:
        header += [f"{name}: variance", "at equal time", "bias"]
    lines = [header]
    for label in sorted({label for _, label in table}, key=lambda label: _order(table, label)):
        name, _, variant = label.partition(", ")
        cells = [
            table.get((model, label), {}).get(column) or "-"
            for model in models
            for column in columns
        ]
        lines.append([f"`{name}`" + (variant and f", {variant}"), *cells])
    put_table(path, "trained models", lines)


def _order(table: Table, label: str) -> tuple[bool, float]:
    """Of the rows on the page: by the variance on the first model that has the estimator."""
    found = (table.get((model, label)) for model in reversed(MODELS))
    return not make(label).unbiased, next(float(row["variance"]) for row in found if row)


def print_rows(name: str, rows: list[Row], repetitions: int) -> None:
    cells = [row.cells() for row in sorted(rows, key=lambda row: row.variance)]
    print_table(
        f"{name}, D = 20, C = 10, N = {SAMPLES}, batch {IMAGES}, {repetitions} repetitions, "
        "one thread",
        [
            "estimator",
            "evaluations",
            "variance at equal evaluations / loorf",
            "time / loorf",
            "variance at equal time / loorf",
            "relative bias",
        ],
        [[row[field.name] or "-" for field in fields(Row)[1:]] for row in cells],
    )
    for row in rows:
        if row.estimator == LIMITED and name in LIMITS:
            print(f"{LIMITED}: {row.variance:.3f} (limit {LIMITS[name]:g})")
