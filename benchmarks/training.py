"""Train the paper's VAEs with several estimators, and compare them at equal steps and equal time.

Every run is resumable. Finished ones go into a table, which is committed; what is in the table is
not trained again. Two processes of this command share the work.
"""

import argparse
import csv
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from pages import put_table
from timing import interleaved, print_table

from carms.lab.data.datasets import load
from carms.lab.runs.settings import Settings
from carms.lab.train.training import Trainer

HERE = Path(__file__).parent.parent / "docs" / "results"
TABLE, TIMES = HERE / "training.csv", HERE / "training_times.csv"
STEPS, EVERY = 50_000, 2500
NETWORKS = ("nonlinear", "linear")
# At equal steps, with ten evaluations each.
TEN = (
    ("loorf", ()),
    ("carms-t", ()),
    ("reinmax", ("coupling=circular",)),
    ("reinmax", ()),
    ("carms-s", ()),
    ("double-cv", ()),
    ("gumbel-softmax", ()),
    ("carms-i", ()),
)
# At equal time, those that may gain by fewer.
FEWER = (
    ("carms-t", (), (4, 3, 6, 2)),
    ("loorf", (), (4, 3, 6, 2)),
    ("carms-s", (), (4,)),
    ("reinmax", ("coupling=circular",), (4, 2)),
    ("double-cv", (), (4,)),
)
# Okabe and Ito's colours, told apart by everybody.
COLOURS = {
    "loorf": "#000000",
    "carms-i": "#0072B2",
    "carms-s": "#D55E00",
    "carms-t": "#56B4E9",
    "double-cv": "#009E73",
    "reinmax": "#CC79A7",
    "gumbel-softmax": "#E69F00",
}
DASHES = {10: "-", 6: (0, (5, 1)), 4: "--", 3: "-.", 2: ":"}


@dataclass(frozen=True)
class Variant:
    """An estimator as it is trained."""

    estimator: str
    options: tuple[str, ...]
    samples: int

    @property
    def label(self) -> str:
        return " ".join([self.estimator, *self.options])

    def settings(self, network: str, seed: int) -> Settings:
        return Settings(
            network=network,  # type: ignore[arg-type]
            samples=self.samples,
            estimator=self.estimator,
            options=self.options,
            steps=STEPS,
            seed=seed,
            log_every=500,
            eval_every=EVERY,
            eval_samples=10,
            checkpoint_every=5000,
        )

    def name(self, network: str, seed: int) -> str:
        options = "".join("-" + option.replace("=", "") for option in self.options)
        return f"{network}-{self.estimator}{options}-n{self.samples}-s{seed}"


def variants() -> list[Variant]:
    ten = [Variant(name, options, 10) for name, options in TEN]
    fewer = [Variant(name, options, samples) for name, options, many in FEWER for samples in many]
    return ten + fewer


Key = tuple[str, str, int, int]


def rows_of(run: Trainer) -> Iterator[dict[str, object]]:
    """The test bound at each evaluation, and the mean objective of the 500 steps before it."""
    settings = run.settings
    for line in run.directory.metrics:
        if "test_bound" in line:
            yield {
                "network": settings.network,
                "estimator": " ".join([settings.estimator, *settings.options]),
                "samples": settings.samples,
                "seed": settings.seed,
                "step": line["step"],
                "objective": f"{line['objective']:.3f}",
                "test_bound": f"{line['test_bound']:.3f}",
            }


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open())) if path.exists() else []


def key(row: dict[str, str]) -> Key:
    return row["network"], row["estimator"], int(row["samples"]), int(row["seed"])


def append(path: Path, rows: Iterable[dict[str, object]]) -> None:
    rows, new = list(rows), not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def train(out: Path, seeds: int, networks: list[str]) -> None:
    """Whatever is missing in the table; a run that another process trains is left to it."""
    data = load("dynamic-mnist")
    for seed in range(seeds):
        for variant in variants():
            for network in networks:
                if (network, variant.label, variant.samples, seed) in map(key, read(TABLE)):
                    continue
                name = variant.name(network, seed)
                run = Trainer(variant.settings(network, seed), out / name, data=data)
                try:
                    run.run()
                except ValueError as error:
                    print(error, flush=True)
                    continue
                print(f"{name} is done", flush=True)
                if (network, variant.label, variant.samples, seed) not in map(key, read(TABLE)):
                    append(TABLE, rows_of(run))


def measure(rounds: int) -> None:
    """Milliseconds of a training step of each variant, all taking turns."""
    data, rows = load("dynamic-mnist"), list[dict[str, object]]()
    with tempfile.TemporaryDirectory() as folder:
        for network in NETWORKS:
            made = {
                variant: Trainer(
                    variant.settings(network, 0), Path(folder, variant.name(network, 0)), data=data
                )
                for variant in variants()
            }
            steps = {variant.name(network, 0): run.one_step for variant, run in made.items()}
            found = interleaved(steps, rounds)
            for variant in made:
                milliseconds = found[variant.name(network, 0)]
                rows.append(
                    {
                        "network": network,
                        "estimator": variant.label,
                        "samples": variant.samples,
                        "milliseconds": f"{milliseconds:.2f}",
                    }
                )
    TIMES.unlink(missing_ok=True)
    append(TIMES, rows)


Curve = dict[int, list[float]]


def curves(column: str) -> dict[tuple[str, str, int], Curve]:
    """By network, estimator and samples: the values of all seeds at each step."""
    found: dict[tuple[str, str, int], Curve] = defaultdict(lambda: defaultdict(list))
    for row in read(TABLE):
        which = row["network"], row["estimator"], int(row["samples"])
        found[which][int(row["step"])].append(float(row[column]))
    return found


def times() -> dict[tuple[str, str, int], float]:
    """Of a step, relative to the step of loorf with ten samples."""
    found = {
        (row["network"], row["estimator"], int(row["samples"])): float(row["milliseconds"])
        for row in read(TIMES)
    }
    return {which: value / found[which[0], "loorf", 10] for which, value in found.items()}


def at_time(curve: Curve, step_time: float, budget: float) -> float | None:
    """The mean over seeds when ``budget`` steps of loorf's length are over, between two steps."""
    steps = sorted(curve)
    wanted = budget / step_time
    for before, after in pairwise(steps):
        if before <= wanted <= after:
            share = (wanted - before) / (after - before)
            low, high = (statistics.mean(curve[step]) for step in (before, after))
            return low + share * (high - low)
    return None


def show(budget: float, page: Path | None) -> None:
    """Objective and test bound at the last step, and when a time is over; on a page, too."""
    bounds, objectives, relative = curves("test_bound"), curves("objective"), times()
    header = ["estimator", "N", "seeds", "objective", "test bound", "time of a step"]
    header += ["objective at equal time", "test bound at equal time"]
    for network in NETWORKS:
        rows = []
        for which, curve in bounds.items():
            if which[0] != network or not curve[STEPS]:
                continue
            found, objective = curve[STEPS], objectives[which]
            spread = f" +- {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            seen = [at_time(each, relative[which], budget) for each in (objective, curve)]
            rows.append(
                [
                    which[1],
                    str(which[2]),
                    str(len(found)),
                    f"{statistics.mean(objective[STEPS]):.2f}",
                    f"{statistics.mean(found):.2f}{spread}",
                    f"{relative[which]:.2f}",
                    *["-" if value is None else f"{value:.2f}" for value in seen],
                ]
            )
        rows.sort(key=lambda row: -float(row[4].split()[0]))
        print_table(
            f"{network} VAE, dynamic MNIST, C = 10, rate 1e-4: after {STEPS:,} steps, and after "
            f"the time of {budget:,.0f} steps of loorf with ten samples",
            header,
            rows,
        )
        if page:
            put_table(page, network, [header, *([f"`{row[0]}`", *row[1:]] for row in rows)])


def draw_panel(axes: Axes, network: str, by_time: bool, relative: dict) -> None:
    reference = curves("test_bound")[network, "loorf", 10]
    for (net, label, samples), curve in curves("test_bound").items():
        if net != network or (not by_time and samples != 10):
            continue
        name, *options = label.split()
        steps = [step for step in sorted(curve) if step >= 2 * EVERY]
        unit = relative.get((net, label, samples)) if by_time else 1.0
        if unit is None:
            continue
        across = [unit * step for step in steps]
        # Over loorf with ten samples at the same place, or the lines would lie on each other.
        up = [
            statistics.mean(curve[step]) - (at_time(reference, 1.0, place) or float("nan"))
            for step, place in zip(steps, across, strict=True)
        ]
        dash = DASHES[samples] if by_time else "--" if options else "-"
        text = f"{label.replace('coupling=', '')}, {samples}" if by_time else label
        axes.plot(across, up, linestyle=dash, color=COLOURS[name], label=text, lw=1.6)
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, STEPS)
    where = "time, in steps of loorf with ten samples" if by_time else "step"
    axes.set(xlabel=where, ylabel="test bound over loorf's (nats)")
    axes.set_title(f"{network}, equal {'time' if by_time else 'steps'}", loc="left")


def draw(path: Path) -> None:
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), dpi=150, layout="constrained")
    relative = times()
    for row, network in zip(panels, NETWORKS, strict=True):
        for axes, by_time in zip(row, (False, True), strict=True):
            draw_panel(axes, network, by_time, relative)
    for axes in panels[0]:
        axes.legend(frameon=False, fontsize=8, ncols=2)
    figure.savefig(path)
    print(f"Drawn in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo/training"), help="the runs")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of each variant")
    parser.add_argument("--networks", nargs="+", default=NETWORKS, help="which networks to train")
    parser.add_argument("--no-train", action="store_true", help="only show what is in the table")
    parser.add_argument("--times", type=int, metavar="ROUNDS", help="measure the step times anew")
    parser.add_argument("--budget", type=float, default=25_000, help="time for the comparison")
    parser.add_argument("--page", type=Path, help="put the tables on this page")
    parser.add_argument("--picture", type=Path, help="draw the curves in this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.times:
        measure(options.times)
    if not options.no_train:
        train(options.out, options.seeds, options.networks)
    if TABLE.exists() and TIMES.exists():
        show(options.budget, options.page)
        if options.picture:
            draw(options.picture)


if __name__ == "__main__":
    main()
