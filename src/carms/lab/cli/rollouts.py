"""The command that compares RLOO with correlated rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from carms.lab.cli.flags import Directory, explained, named
from carms.lab.cli.progress import progress_bars
from carms.lab.cli.words import counted
from carms.lab.runs.rollout_settings import Method, RolloutSettings

if TYPE_CHECKING:
    from carms.lab.sweep.jobs import Job, Outcome

__all__ = ["Rollouts"]

# The largest number of seeds.
SEEDS = 10_000


@dataclass(frozen=True)
class Rollouts:
    """Teach a transformer to add by policy gradient, with RLOO and with correlated rollouts.

    The numbers have three digits to the base 4; the reward of an answer is its share of right
    digits. Methods with the same seed have the same first weights and prompts. When the same
    command runs again, it leaves finished runs alone and begins the others anew.

    Attributes:
        out: directory under which each run gets its own, and of the pictures
        methods: rloo draws independent rollouts, carms correlated ones
        seeds: number of runs of each method
        steps: number of training steps
        samples: number of rollouts of a prompt
        prompts: number of prompts in a step
        epsilon: probability with which carms draws the rollouts of a prompt independently
            (default: 4 / samples^1.5 and at most 1, which is 0.0625 for 16 samples)
        rate: learning rate of Adam; the default was chosen with rloo
        log_every: number of steps from one line of metrics to the next
        workers: number of processes (default: the number of cores)
    """

    out: Directory
    methods: Annotated[tuple[Method, ...], named("{rloo,carms} ...")] = ("rloo", "carms")
    seeds: int = 5
    steps: int = 1500
    samples: int = 16
    prompts: int = 16
    epsilon: Annotated[float | None, explained] = None
    rate: float = 5e-4
    log_every: int = 50
    workers: Annotated[int | None, explained] = None

    def run(self, console: Console) -> None:
        """Train what is left, print a table of all runs and draw them."""
        if not 1 <= self.seeds <= SEEDS:
            raise ValueError(f"seeds must be from 1 to {SEEDS:,}, got {self.seeds:,}")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods are rloo, carms or both, got {' '.join(self.methods)}")
        from carms.lab.cli.rewards import print_rewards
        from carms.lab.figures.rewards import draw_rewards
        from carms.lab.runs.rollout_metrics import read_rollout_metrics
        from carms.lab.runs.store import RunDirectory
        from carms.lab.sweep.processes import number_of_workers

        workers = number_of_workers(self.workers)
        jobs = self._jobs()
        directories = [RunDirectory(job.path, job.settings.to_json()) for job in jobs]
        left = [job for job, one in zip(jobs, directories, strict=True) if one.result is None]
        finished = len(jobs) - len(left)
        console.print(f"{counted(len(jobs), 'run')} under {self.out}, {finished} finished")
        _train(console, left, workers)
        metrics: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in self.methods}
        for job in jobs:
            metrics[job.settings.method].append(read_rollout_metrics(job.path, job.settings))
        print_rewards(
            console, metrics, f"After {self.steps:,} steps, {counted(self.seeds, 'seed')}"
        )
        for written in draw_rewards(metrics, self.out / "rewards.png"):
            console.print(f"written to {written}")

    def _jobs(self) -> list["Job[RolloutSettings]"]:
        """All runs, ordered by seed, so that the methods can be compared half-way."""
        from carms.lab.sweep.jobs import Job

        return [
            Job(
                RolloutSettings(
                    method,
                    seed,
                    self.steps,
                    self.samples,
                    self.prompts,
                    self.epsilon,
                    self.rate,
                    self.log_every,
                ),
                self.out / f"{method}-seed{seed}",
            )
            for seed in range(self.seeds)
            for method in self.methods
        ]


def _train(console: Console, left: Sequence["Job[RolloutSettings]"], workers: int) -> None:
    """Train the runs that are left: a bar for all of them, and a line for each that ends."""
    from carms.lab.runs.metrics import last_line
    from carms.lab.runs.records import read_raw_result
    from carms.lab.sweep.processes import in_processes
    from carms.lab.train.rollouts import train_rollouts

    failed: list[Outcome] = []
    held: list[Outcome] = []
    total = sum(job.settings.steps for job in left)
    with progress_bars(console) as progress:
        bar = progress.add_task("steps of all runs", total=total, visible=bool(left))
        for outcome in in_processes(train_rollouts, left, workers):
            if outcome is not None and outcome.error is not None:
                (held if outcome.held else failed).append(outcome)
                console.print(f"{outcome.job.path.name}: {outcome.error}", highlight=False)
            elif outcome is not None:
                job = outcome.job
                result = read_raw_result(job.path)
                assert result is not None
                console.print(
                    f"{job.path.name}: {result['reward']:.1%} of held-out digits right, "
                    f"{result['solved']:.1%} of answers",
                    highlight=False,
                )
            if console.is_terminal:
                lines = [last_line(job.path, job.settings.steps, ("reward",)) for job in left]
                progress.update(bar, completed=sum(line.get("step", 0) for line in lines))
    if failed:
        raise ValueError(f"{counted(len(failed), 'run')} failed; the same command retries")
    if held:
        raise ValueError(
            f"another process trains {counted(len(held), 'run')}: when it has ended, the same "
            "command shows all of them"
        )
