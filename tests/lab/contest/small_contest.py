"""A contest whose runs take no time: scores are made up, and known."""

from dataclasses import replace

from carms.lab.contest.task import Entry, Judged, Learner, Task

# What a step of each estimator adds to the score.
SLOPES = {"loorf": 1.0, "good": 2.0, "bad": 0.5, "lost": 1.0}


class MadeUp(Learner):
    """Scores grow with the step and the seed; rate 2 is the best; "lost" diverges."""

    def __init__(self, entry, rate, seed):
        self.slope, self.rate, self.seed, self.steps = SLOPES[entry.name], rate, seed, 0
        self.lost = entry.name == "lost"

    def step(self):
        self.steps += 1
        return float("nan") if self.lost and self.steps > 2 and self.seed % 2 else 1.0

    def judge(self):
        score = self.slope * self.steps + self.seed % 7 - abs(self.rate - 2)
        return Judged(score, score + 100)


def entries():
    taking_part = [Entry(name, 4, 4) for name in SLOPES]
    return [*taking_part, Entry("absent", reason="it is not for this")]


TASK = Task(
    name="made-up",
    title="Nothing is learned",
    measure="made-up score",
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
