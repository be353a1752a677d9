"""How long the steps of each entry of a task take, measured in turns."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from carms.lab.contest.machine import describe_machine
from carms.lab.contest.running import reason_of, take_step
from carms.lab.contest.statistics import Mean, estimate_mean
from carms.lab.contest.task import Task, TaskLearner
from carms.lab.runs.metrics import LARGEST
from carms.lab.runs.reading import OBJECT_LIMIT, parse_object, read_if_there
from carms.lab.runs.writing import write_atomically

__all__ = [
    "PARTS",
    "STEPS",
    "WARM_UP",
    "Pace",
    "Times",
    "measure",
    "read_times",
    "seconds_of_run",
    "write_times",
]

# Equal parts of a training, in the middle of each of which times are measured. Even, so that each
# entry comes before and after each other one equally often.
PARTS = 16
# Steps of an entry in a part: the first ones find the caches full of another entry's numbers.
WARM_UP, STEPS = 2, 20
# A file with fewer parts tells too little.
LEAST_PARTS = 6


@dataclass(frozen=True)
class Pace:
    """Times of an entry relative to those of the reference.

    Attributes:
        ratios: time of a step relative to one of the reference, in equal parts of the training.
    """

    ratios: Sequence[float]

    @property
    def whole(self) -> Mean:
        """Time of a whole run, in runs of the reference."""
        return estimate_mean(self.ratios)

    def after(self, share: float) -> float:
        """Time of a share of the steps, in runs of the reference.

        Examples:
            >>> Pace([1.0, 3.0]).after(0.75)
            1.25
        """
        ended = share * len(self.ratios)
        parts = enumerate(self.ratios)
        return sum(min(max(ended - k, 0.0), 1.0) * own for k, own in parts) / len(self.ratios)


@dataclass(frozen=True)
class Times:
    """Times of all entries of a task, from one machine.

    A machine is faster in some minutes than in others, but hardly within a part. So times are
    compared within parts.

    Attributes:
        machine: where they were measured.
        seconds: processor time of ``STEPS`` training steps in each part of a training, by entry.
        failed: why others have no times.
    """

    machine: str
    seconds: Mapping[str, Sequence[float]]
    failed: Mapping[str, str]

    def covers(self, task: Task) -> bool:
        """Whether all entries that can take part were tried, and the reference has times."""
        tried = {*self.seconds, *self.failed}
        every = all(entry.reason or entry.name in tried for entry in task.entries())
        return every and task.reference in self.seconds

    def pace(self, name: str, reference: str) -> Pace | None:
        """Times of an entry relative to those of another one; None if one has no times."""
        if not {name, reference} <= {*self.seconds}:
            return None
        pairs = zip(self.seconds[name], self.seconds[reference], strict=True)
        return Pace([own / other for own, other in pairs])


def measure(task: Task, rate: float, parts: Iterable[int]) -> Times:
    """Measure all entries in each part of a training, every other time in the opposite order.

    Steps of some estimators take longer when probabilities are far from equal. So the reference is
    trained, and in the middle of each part all entries take steps from the model that it has then.

    Args:
        task: what is learned.
        rate: learning rate of the reference. The others have the lowest one, with which the fewest
            diverge.
        parts: the parts in which to measure, in order.
    """
    seconds = {entry.name: list[float]() for entry in task.entries() if not entry.reason}
    failed: dict[str, str] = {}
    learners: dict[str, TaskLearner] = {}
    order = [*seconds]
    leader, step = task.start(task.find(task.reference), rate, 0), 0
    for part in parts:
        middle = int((part + 0.5) * task.steps / PARTS)
        for _ in range(middle - step):
            take_step(leader)
        step = middle
        for name in order:
            if name in failed:
                continue
            try:
                if name not in learners:
                    learners[name] = task.start(task.find(name), min(task.rates), 0)
                _copy(leader, learners[name])
                seconds[name].append(_seconds(learners[name], WARM_UP, STEPS))
            except (FloatingPointError, ValueError, RuntimeError) as error:
                if name == task.reference:
                    raise
                failed[name] = reason_of(error)
                learners.pop(name, None)
                del seconds[name]
        order.reverse()
    return Times(describe_machine(), seconds, failed)


@torch.no_grad()
def _copy(source: TaskLearner, target: TaskLearner) -> None:
    for own, other in zip(target.parameters, source.parameters, strict=True):
        own.copy_(other)


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
    text = read_if_there(path, OBJECT_LIMIT)
    if text is None:
        return None
    try:
        return _times(parse_object(text))
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
        if not isinstance(own, list) or len(own) < LEAST_PARTS or not all(map(_is_time, own)):
            raise ValueError(f"times of {name} are not {LEAST_PARTS} positive numbers or more")
    if len({*map(len, seconds.values())}) > 1:
        raise ValueError("its entries have times of different numbers of parts")
    return Times(machine, seconds, failed)


def _is_time(value: object) -> bool:
    # A bool is an int, too.
    return isinstance(value, float | int) and value is not True and 0 < value <= LARGEST


def _path(folder: Path, task: Task) -> Path:
    return folder / f"{task.name}.times.json"
