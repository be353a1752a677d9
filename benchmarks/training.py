"""Train the paper's VAEs with several estimators, and compare them at equal steps and equal time.

Every run is resumable. Finished runs go into a table, which is committed; a run in the table is not
trained again. Two processes of this command share the work.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from pages import put_table
from run_table import add, key_of, read, write
from timing import print_table
from training_picture import draw
from training_results import (
    KEY,
    TABLE,
    TIMES,
    Line,
    Runs,
    best_lines,
    bounds_at,
    leads,
    leads_of_times,
    runs,
    seeds_at,
    times,
)

from carms.lab.contest.statistics import Mean, estimate_mean
from carms.lab.data.datasets import load
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import HeldRunError
from carms.lab.train.learner import Learner
from carms.lab.train.training import Trainer

STEPS, EVERY = 50_000, 2500
# Steps of a variant in a round of a measurement of time. The first ones find the caches full of
# another one's numbers.
WARM_UP, TIMED = 5, 25
NETWORKS = ("nonlinear", "linear")
# Compared at equal steps, with ten evaluations each.
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
# Compared at equal time, with fewer evaluations.
FEWER = (
    ("carms-t", (), (4, 3, 6, 2)),
    ("loorf", (), (4, 3, 6, 2)),
    ("carms-s", (), (4, 3)),
    ("reinmax", ("coupling=circular",), (4, 2)),
    ("double-cv", (), (4, 2)),
    ("carms-i", (), (3,)),
    ("gumbel-softmax", (), (2,)),
    ("reinmax", (), (2,)),
)


@dataclass(frozen=True)
class Variant:
    """An estimator with its options and samples."""

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


def is_done(variant: Variant, network: str, seed: int) -> bool:
    """Whether the table has a run to its last step."""
    wanted = (network, variant.label, str(variant.samples), str(seed))
    return any(key_of(row, KEY) == wanted and int(row["step"]) == STEPS for row in read(TABLE))


def train(out: Path, seeds: int, networks: list[str]) -> None:
    """Train the runs that the table does not have, but for those that another process trains."""
    data = load("dynamic-mnist")
    for seed in range(seeds):
        for variant in variants():
            for network in networks:
                if is_done(variant, network, seed):
                    continue
                name = variant.name(network, seed)
                run = Trainer(variant.settings(network, seed), out / name, data=data)
                try:
                    run.run()
                except HeldRunError as error:
                    print(error, flush=True)
                    continue
                print(f"{name} is done", flush=True)
                if not is_done(variant, network, seed):
                    add(TABLE, [*rows_of(run)], KEY)


def measure(rounds: int) -> None:
    """Measure the time of a training step of each variant, relative to loorf with ten samples.

    A machine is faster in some minutes than in others, but hardly within a round. So all variants
    have a turn in each round, every other round in the opposite order, and times are compared
    within rounds.
    """
    data, rows = load("dynamic-mnist"), list[dict[str, object]]()
    for network in NETWORKS:
        learners = {each: Learner(each.settings(network, 0), data=data) for each in variants()}
        seconds = defaultdict[Variant, list[float]](list)
        order = [*learners]
        for _ in range(rounds):
            for variant in order:
                seconds[variant].append(seconds_of_steps(learners[variant]))
            order.reverse()
        reference = seconds[Variant("loorf", (), 10)]
        for variant, own in seconds.items():
            relative = estimate_mean([a / b for a, b in zip(own, reference, strict=True)])
            numbers = {"time": relative.value, "low": relative.low, "high": relative.high}
            rows.append(
                {
                    "network": network,
                    "estimator": variant.label,
                    "samples": variant.samples,
                    **{name: f"{number:.4f}" for name, number in numbers.items()},
                }
            )
    write(TIMES, rows)


def seconds_of_steps(learner: Learner) -> float:
    """Processor time of some steps, after some that are not counted."""
    for step in range(WARM_UP + TIMED):
        if step == WARM_UP:
            started = time.thread_time()
        learner.one_step()
    return time.thread_time() - started


def show(budget: float, page: Path | None) -> None:
    """Print objectives and test bounds at equal steps and equal time, and put them on a page."""
    bounds, objectives, relative = runs("test_bound"), runs("objective"), times()
    header = ["estimator", "N", "seeds", "objective", "test bound", "time of a step"]
    header += ["objective at equal time", "test bound at equal time"]
    for network in NETWORKS:
        rows = [
            row_of_line(which, objectives[which], own, relative.get(which), budget)
            for which, own in bounds.items()
            if which[0] == network and any(STEPS in run for run in own.values())
        ]
        rows.sort(key=lambda row: -float(row[4].split()[0]))
        print_table(
            f"{network} VAE, dynamic MNIST, C = 10, rate 1e-4: after {STEPS:,} steps, and after "
            f"the time of {budget:,.0f} steps of loorf with ten samples",
            header,
            rows,
        )
        if page:
            put_table(page, network, [header, *([f"`{row[0]}`", *row[1:]] for row in rows)])


def row_of_line(
    which: Line, objectives: Runs, bounds: Runs, step_time: Mean | None, budget: float
) -> list[str]:
    """Means over the seeds of a line; dashes for what needs a time that was not measured."""
    ended = [run[STEPS] for run in bounds.values() if STEPS in run]
    objective = statistics.mean(run[STEPS] for run in objectives.values() if STEPS in run)
    spread = f" +- {statistics.stdev(ended):.2f}" if len(ended) > 1 else ""
    start = [which[1], str(which[2]), str(len(ended)), f"{objective:.2f}"]
    start.append(f"{statistics.mean(ended):.2f}{spread}")
    if step_time is None:
        return [*start, "-", "-", "-"]
    seen = [seeds_at(each, step_time.value, budget).values() for each in (objectives, bounds)]
    means = [f"{statistics.mean(values):.2f}" if values else "-" for values in seen]
    return [*start, f"{step_time.value:.2f}", *means]


def show_leads(budget: float, page: Path | None) -> None:
    """Print leads over loorf at equal time, seed by seed, where each estimator has the best number
    of samples of those with several seeds.
    """
    found = bounds_at(budget)
    header = ["network", "estimator", "N", "lead over loorf", "its N", "ahead in"]
    header.append("lead by other times")
    rows = [row for network in NETWORKS for row in rows_of_leads(network, found, budget)]
    title = "Test bound at equal time, each with its best N: mean and standard error"
    print_table(title, header, rows)
    if page:
        put_table(page, "leads", [header, *([row[0], f"`{row[1]}`", *row[2:]] for row in rows)])


def rows_of_leads(
    network: str, found: dict[Line, dict[str, float]], budget: float
) -> list[list[str]]:
    """A row for each estimator that has several seeds, which loorf has too."""
    best = best_lines(found, network)
    reference = best.pop("loorf", None)
    rows = []
    for label, which in best.items() if reference else ():
        own = leads(found[which], found[reference])
        if len(own) > 1:
            error = statistics.stdev(own) / len(own) ** 0.5
            lead = f"{statistics.mean(own):+.2f} +- {error:.2f}"
            ahead = f"{sum(each > 0 for each in own)} of {len(own)} seeds"
            ends = leads_of_times(which, reference, budget)
            between = f"{ends[0]:+.2f} to {ends[1]:+.2f}" if ends else "-"
            rows.append([network, label, str(which[2]), lead, str(reference[2]), ahead, between])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/training"), help="folder of the runs"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of each variant")
    parser.add_argument(
        "--networks",
        nargs="+",
        choices=NETWORKS,
        default=NETWORKS,
        help="which networks to train",
    )
    parser.add_argument("--no-train", action="store_true", help="only show what is in the table")
    parser.add_argument("--times", type=int, metavar="ROUNDS", help="measure the step times anew")
    parser.add_argument("--budget", type=float, default=16_000, help="time for the comparison")
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
        show_leads(options.budget, options.page)
        if options.picture:
            draw(options.picture, NETWORKS, options.budget, last=STEPS, first=2 * EVERY)


if __name__ == "__main__":
    main()
