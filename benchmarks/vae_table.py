"""Train rows of the paper's first table, and show them beside its figures.

All its rows have a tenth of the steps; with --long, one row has all of them and other seeds. Every
run is resumable. Finished runs go into a table, which is committed; a run in the table is not
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
from carms.lab.train.signals import InterruptedRunError
from carms.lab.train.training import Trainer

TABLE = Path(__file__).parent.parent / "docs" / "results" / "vae_table.csv"
PARTS = ("train", "test")
ROW = ("dataset", "network", "categories")
KEY = (*ROW, "estimator", "seed", "steps")
# Estimators of these runs that the paper has, too.
PRINTED = ("loorf", "carms-i")
# Estimators and seeds of the runs with all steps, the most wanted first.
LONG = (("carms-t", 0), ("loorf", 1), ("carms-i", 1), ("loorf", 2), ("carms-i", 2))
REFERENCE = "loorf"
TITLES = {
    "long-vae": "Bound of 100 samples, train / test: 10^6 steps",
    "short-vae": "Bound of 100 samples, train / test: 10^5 steps; the paper: 10^6",
    "short-vae-leads": f"Lead over {REFERENCE} in nats, train / test: 10^5 steps",
}


def long_runs() -> list[Settings]:
    row = Settings(network="linear", categories=3)
    return [replace(row, estimator=name, seed=seed) for name, seed in LONG]


def key_of_run(settings: Settings) -> tuple[str, ...]:
    return key_of(vars(settings), KEY)


def train(runs: list[Settings], out: Path) -> None:
    """Train the runs that the table does not have, but for those that another process trains."""
    for settings in runs:
        if key_of_run(settings) in {key_of(row, KEY) for row in read(TABLE)}:
            continue
        name = run_name(settings)
        try:
            result = Trainer(settings, out / name).run()
        except HeldRunError as error:
            print(error, flush=True)
            continue
        except InterruptedRunError as error:
            raise SystemExit(str(error)) from None
        likelihoods = {part: f"{result[f'{part}_log_likelihood']:.2f}" for part in PARTS}
        add(TABLE, [{**dict(zip(KEY, key_of_run(settings), strict=True)), **likelihoods}], KEY)
        print(f"{name} is done", flush=True)


def found_runs() -> dict[tuple[str, ...], str]:
    """Log likelihoods of the runs in the table, train / test."""
    return {key_of(row, KEY): " / ".join(row[part] for part in PARTS) for row in read(TABLE)}


def rows_of_table(runs: list[Settings]) -> list[list[str]]:
    """A row for each data set, network and number of categories that has a finished run, after a
    header; a dash for a run that is missing.
    """
    found = found_runs()
    estimators = list(dict.fromkeys(run.estimator for run in runs))
    rows = [[*_header(estimators), *(f"the paper, `{name}`" for name in PRINTED)]]
    for first in _first_of_rows(runs):
        own = [replace(first, estimator=name) for name in estimators]
        cells = [found.get(key_of_run(run), "-") for run in own]
        if any(cell != "-" for cell in cells):
            paper = [_printed(replace(first, estimator=name)) for name in PRINTED]
            rows.append([*key_of(vars(first), ROW), *cells, *paper])
    return rows


def rows_of_leads(runs: list[Settings]) -> list[list[str]]:
    """A row of leads over the reference for each row of the paper's table in which it and another
    one are finished, after a header; a dash for a run that is missing.
    """
    figures = {key_of(row, KEY): [float(row[part]) for part in PARTS] for row in read(TABLE)}
    estimators = list(dict.fromkeys(run.estimator for run in runs if run.estimator != REFERENCE))
    rows = [_header(estimators)]
    for first in _first_of_rows(runs):
        reference = figures.get(key_of_run(replace(first, estimator=REFERENCE)))
        if reference is None:
            continue
        own = [figures.get(key_of_run(replace(first, estimator=name))) for name in estimators]
        if any(own):
            rows.append([*key_of(vars(first), ROW), *(_lead(one, reference) for one in own)])
    return rows


def rows_of_long_table(runs: list[Settings]) -> list[list[str]]:
    """A row for each finished run with all steps, after a header."""
    found = found_runs()
    rows = [["estimator", "seed", "train / test", "the paper, train / test"]]
    for run in runs:
        if key_of_run(run) in found:
            rows.append(
                [f"`{run.estimator}`", str(run.seed), found[key_of_run(run)], _printed(run)]
            )
    return rows


def tables() -> dict[str, list[list[str]]]:
    """All tables, by their marks on the page."""
    return {
        "long-vae": rows_of_long_table(long_runs()),
        "short-vae": rows_of_table(read_grid("short-vae")),
        "short-vae-leads": rows_of_leads(read_grid("short-vae")),
    }


def _header(estimators: list[str]) -> list[str]:
    return ["data set", "network", "C", *(f"`{name}`" for name in estimators)]


def _first_of_rows(runs: list[Settings]) -> list[Settings]:
    """One run of each row of the paper's table."""
    return [run for run in runs if run.estimator == runs[0].estimator]


def _lead(found: list[float] | None, reference: list[float]) -> str:
    if found is None:
        return "-"
    return " / ".join(f"{one - other:+.2f}" for one, other in zip(found, reference, strict=True))


def _printed(settings: Settings) -> str:
    cells = [printed(settings, part) for part in PARTS]
    return " / ".join("-" if cell is None else f"{cell.mean:.2f}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/vae-table"), help="folder of the runs"
    )
    parser.add_argument("--long", action="store_true", help="train one row, with all steps")
    parser.add_argument("--no-train", action="store_true", help="only show finished runs")
    parser.add_argument("--page", type=Path, help="put the tables on this page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.no_train:
        train(long_runs() if options.long else read_grid("short-vae"), options.out)
    for mark, (header, *rows) in tables().items():
        print_table(TITLES[mark], header, rows)
        if options.page:
            put_table(options.page, mark, [header, *rows])


if __name__ == "__main__":
    main()
