"""Every estimator on trained models: variance and time relative to LOORF, and bias."""

import argparse
from pathlib import Path

import torch
from drawing import draw
from models.findings import measure
from models.networks import print_random_networks
from models.problems import MODELS, choose, trained
from models.rows import Row, print_rows, write, write_page

from carms.lab.data.datasets import MissingData, load


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="estimators to measure")
    parser.add_argument(
        "--models", nargs="*", default=list(MODELS), choices=list(MODELS), help="trained models"
    )
    parser.add_argument(
        "--repetitions", type=int, default=200, help="number of gradients of each estimator"
    )
    parser.add_argument("--rounds", type=int, default=25, help="number of timed gradients")
    parser.add_argument("--networks", type=int, default=6, help="number of random networks")
    parser.add_argument("--batches", type=int, default=100, help="number of calls on each of them")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/trained"), help="folder of the trained models"
    )
    parser.add_argument("--out", type=Path, help="picture of the last model")
    parser.add_argument("--csv", type=Path, help="table for the estimators' pages")
    parser.add_argument("--page", type=Path, help="page whose table is made of that of --csv")
    chosen = parser.parse_args()
    if chosen.page and not chosen.csv:
        parser.error("--page needs --csv")
    return chosen


def main() -> None:
    chosen = options()
    torch.set_num_threads(1)
    labels = choose(chosen.only)
    rows: list[Row] = []
    for name in chosen.models:
        dataset = MODELS[name].dataset
        try:
            load(dataset)
        except MissingData:
            print(f"\n{name} is left out; `carms data fetch {dataset}` gets its images")
            continue
        rows = measure(name, labels, trained(name, chosen.runs), chosen)
        print_rows(name, rows, chosen.repetitions)
        if chosen.csv:
            table = write(rows, chosen.csv)
            if chosen.page:
                write_page(table, chosen.page)
    if chosen.networks:
        print_random_networks(chosen.networks, chosen.batches)
    if chosen.out and rows:
        title = f"Gradients of a trained model, {rows[0].model}"
        draw(rows, chosen.out, "time of a gradient / that of loorf", title)
        print(f"Drawn in {chosen.out}")


if __name__ == "__main__":
    main()
