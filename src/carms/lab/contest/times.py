"""How long a step of each entry of a task takes, measured in turns."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from carms.lab.contest.machine import describe_machine
from carms.lab.contest.running import reason_of, take_step
from carms.lab.contest.statistics import Median, estimate_median
from carms.lab.contest.task import Task, TaskLearner
from carms.lab.runs.metrics import LARGEST
from carms.lab.runs.reading import read_object
from carms.lab.runs.writing import write_atomically

__all__ = [
    "ROUNDS",
    "STEPS",
    "WARM_UP",
    "Times",
    "measure",
    "read_times",
    "seconds_of_run",
    "write_times",
]

# Even, so that each entry comes before and after each other one equally often.
ROUNDS = 16
# Steps of an entry in a round: the first ones find the caches full of another entry's numbers.
WARM_UP, STEPS = 2, 20


@dataclass(frozen=True)
class Times:
    """Times of all entries of a task, from one machine.

    A machine is faster in some minutes than in others, but hardly within a round. So times are
    compared within rounds.

    Attributes:
        machine: where they were measured.
        seconds: processor time of ``STEPS`` training steps in each of ``ROUNDS`` rounds, by entry.
        failed: why others have no times.
    """

    machine: str
    seconds: Mapping[str, Sequence[float]]
    failed: Mapping[str, str]

    def covers(self, task: Task) -> bool:
        """Whether all entries that can take part were tried."""
        tried = {*self.seconds, *self.failed}
        return all(entry.reason or entry.name in tried for entry in task.entries())

    def relative(self, name: str, reference: str) -> Median | None:
        """Time of an entry in units of that of another one; None if one has no time."""
        if not {name, reference} <= {*self.seconds}:
            return None
        pairs = zip(self.seconds[name], self.seconds[reference], strict=True)
        return estimate_median([own / other for own, other in pairs])


def measure(task: Task, rounds: Iterable[object]) -> Times:
    """Measure all entries in each of these rounds, every other time in the opposite order.

    They go on training from round to round, at the lowest rate, with which the fewest diverge.
    """
    seconds = {entry.name: list[float]() for entry in task.entries() if not entry.reason}
    failed: dict[str, str] = {}
    learners: dict[str, TaskLearner] = {}
    order = [*seconds]
    for _ in rounds:
        for name in order:
            if name in failed:
                continue
            try:
                if name not in learners:
                    learners[name] = task.start(task.find(name), min(task.rates), 0)
                seconds[name].append(_seconds(learners[name], WARM_UP, STEPS))
            except Exception as error:
                failed[name] = reason_of(error)
                learners.pop(name, None)
                del seconds[name]
        order.reverse()
    return Times(describe_machine(), seconds, failed)


def seconds_of_run(task: Task, estimator: str) -> float:
    """Processor time of a run of an entry, by a measurement of a few steps and a judgement."""
    learner = task.start(task.find(estimator), min(task.rates), 0)
    step = _seconds(learner, 2, 8) / 8
    started = time.thread_time()
    learner.judge()
    return step * task.steps + (time.thread_time() - started) * len(task.judged_steps)


def _seconds(learner: TaskLearner, warm_up: int, steps: int) -> float:
    """Processor time of some steps after others. It has one thread: progress is shown in others."""
    for step in range(warm_up + steps):
        if step == warm_up:
            started = time.thread_time()
        take_step(learner)
    return time.thread_time() - started


def write_times(folder: Path, task: Task, times: Times) -> None:
    """Write the times of a task, in the place of those that were there."""
    seconds = {name: [float(f"{each:.4g}") for each in own] for name, own in times.seconds.items()}
    record = {"machine": times.machine, "seconds": seconds, "failed": {**times.failed}}
    write_atomically(_path(folder, task), (json.dumps(record) + "\n").encode())


def read_times(folder: Path, task: Task) -> Times | None:
    """The times of a task; None if there is no file."""
    path = _path(folder, task)
    record = read_object(path)
    if record is None:
        return None
    try:
        return _times(record)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}; delete it to measure anew") from error


def _times(record: Mapping[str, object]) -> Times:
    if {*record} != {"machine", "seconds", "failed"}:
        raise ValueError("it does not have machine, seconds and failed")
    machine, seconds, failed = record["machine"], record["seconds"], record["failed"]
    if not isinstance(machine, str) or not isinstance(seconds, dict):
        raise ValueError("the machine is no text, or seconds are no object")
    if not isinstance(failed, dict) or not all(isinstance(each, str) for each in failed.values()):
        raise ValueError("reasons of failures are no texts")
    for name, own in seconds.items():
        if not isinstance(own, list) or len(own) != ROUNDS or not all(map(_is_time, own)):
            raise ValueError(f"times of {name} are no list of {ROUNDS} positive numbers")
    return Times(machine, seconds, failed)


def _is_time(value: object) -> bool:
    return isinstance(value, float | int) and 0 < value <= LARGEST


def _path(folder: Path, task: Task) -> Path:
    return folder / f"{task.name}.times.json"
