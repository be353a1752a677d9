"""Train the rows of the paper's first table with a tenth of its steps, and show them beside it.

Every run is resumable. Finished runs go into a table, which is committed; a run in the table is not
trained again. Two processes of this command share the work.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from pages import put_table
from run_table import add, key_of, read
from timing import print_table

from carms.lab.report.paper import printed
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import HeldRunError
from carms.lab.sweep.grid import read_grid, run_name
from carms.lab.train.training import Trainer

TABLE = Path(__file__).parent.parent / "docs" / "results" / "short_vae.csv"
PARTS = ("train", "test")
ROW = ("dataset", "network", "categories")
KEY = (*ROW, "estimator")
# Estimators of these runs that the paper has, too.
PRINTED = ("loorf", "carms-i")


def key_of_run(settings: Settings) -> tuple[str, ...]:
    return key_of(vars(settings), KEY)


def train(out: Path) -> None:
    """Train the runs that the table does not have, but for those that another process trains."""
    for settings in read_grid("short-vae"):
        if key_of_run(settings) in {key_of(row, KEY) for row in read(TABLE)}:
            continue
        name = run_name(settings)
        try:
            result = Trainer(settings, out / name).run()
        except HeldRunError as error:
            print(error, flush=True)
            continue
        likelihoods = {part: f"{result[f'{part}_log_likelihood']:.2f}" for part in PARTS}
        add(TABLE, [{**dict(zip(KEY, key_of_run(settings), strict=True)), **likelihoods}], KEY)
        print(f"{name} is done", flush=True)


def rows_of_table() -> list[list[str]]:
    """A row for each data set, network and number of categories that has a finished run, after a
    header; a dash for a run that is missing.
    """
    found = {key_of(row, KEY): " / ".join(row[part] for part in PARTS) for row in read(TABLE)}
    runs = read_grid("short-vae")
    estimators = list(dict.fromkeys(run.estimator for run in runs))
    header = ["data set", "network", "C", *(f"`{name}`" for name in estimators)]
    rows = [header + [f"the paper, `{name}`" for name in PRINTED]]
    for first in runs:
        if first.estimator != estimators[0]:
            continue
        own = [replace(first, estimator=name) for name in estimators]
        cells = [found.get(key_of_run(run), "-") for run in own]
        if any(cell != "-" for cell in cells):
            paper = [_printed(replace(first, estimator=name)) for name in PRINTED]
            rows.append([*key_of(vars(first), ROW), *cells, *paper])
    return rows


def _printed(settings: Settings) -> str:
    cells = [printed(settings, part) for part in PARTS]
    return " / ".join("-" if cell is None else f"{cell.mean:.2f}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/short-vae"), help="folder of the runs"
    )
    parser.add_argument("--no-train", action="store_true", help="only show what is in the table")
    parser.add_argument("--page", type=Path, help="put the table on this page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.no_train:
        train(options.out)
    header, *rows = rows_of_table()
    print_table("Bound of 100 samples, train / test: 10^5 steps; the paper: 10^6", header, rows)
    if options.page:
        put_table(options.page, "short-vae", [header, *rows])


if __name__ == "__main__":
    main()
