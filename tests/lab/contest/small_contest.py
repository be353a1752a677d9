"""A contest whose runs take no time: scores are made up, and known."""

import io
from dataclasses import replace

from rich.console import Console

from carms.lab.contest.results import Result, Run
from carms.lab.contest.task import Entry, Judged, Task, TaskLearner
from carms.lab.contest.times import PARTS, Times

# What a step of each estimator adds to the score.
SLOPES = {"loorf": 1.0, "good": 2.0, "bad": 0.5, "lost": 1.0}


class MadeUp(TaskLearner):
    """Scores grow with the step and the seed; rate 2 is the best; "lost" diverges."""

    def __init__(self, entry, rate, seed):
        self.slope, self.rate, self.seed, self.steps = SLOPES[entry.name], rate, seed, 0
        self.lost = entry.name == "lost"

    @property
    def parameters(self):
        return []

    def step(self):
        self.steps += 1
        return float("nan") if self.lost and self.steps > 2 and self.seed % 2 else 1.0

    def judge(self):
        score = self.slope * self.steps + self.seed % 7 - abs(self.rate - 2)
        return Judged(score, score + 100)


def entries():
    taking_part = [Entry(name, 4, 4, unbiased=name != "good") for name in SLOPES]
    return [*taking_part, Entry("absent", reason="it is not for this")]


TASK = Task(
    name="made-up",
    title="Nothing is learned",
    measure="made-up score",
    unit="points",
    higher_wins=True,
    rates=(1.0, 2.0, 3.0),
    steps=6,
    judge_every=2,
    seeds=6,
    evaluations=4,
    entries=entries,
    start=MadeUp,
)

LOWER = replace(TASK, name="lower", higher_wins=False)


def made_up_results(scores):
    """Trials that choose rate 2, and final runs with these scores, by estimator."""
    results = []
    for name, own in scores.items():
        for rate in TASK.rates:
            for seed in (1000, 1001):
                quality = -abs(rate - 2)
                results.append(Result(Run("trial", name, rate, seed), 1.0, (quality,)))
        for seed, last in enumerate(own):
            run = Run("final", name, 2.0, seed)
            failed = last is None
            values = () if failed else (last - 2, last - 1, last)
            error = "diverged: at step 1" if failed else ""
            results.append(Result(run, 1.0, values, error))
    return {result.run: result for result in results}


SCORES = {
    "loorf": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "good": [3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "bad": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "lost": [9.0, 9.0, 9.0, 9.0, 9.0, None],
}
TIMES = {"loorf": 1.0, "good": 3.0, "bad": 0.5, "lost": 1.0}


def made_up_times(relative, **failed):
    """Times that are the same in each part, by estimator, and reasons why others have none."""
    seconds = {name: [time / 4] * PARTS for name, time in relative.items() if name not in failed}
    return Times("made-up machine", seconds, failed)


def output(run):
    """What a command prints."""
    console = Console(file=io.StringIO(), width=200)
    run.run(console)
    return console.file.getvalue()
