"""Times of the steps of a task: what is measured is read, and what is damaged is named."""

import json
import math
from dataclasses import replace

import pytest
import torch
from small_contest import TASK, MadeUp, made_up_times

from carms.lab.contest import times as module
from carms.lab.contest.tasks import TASKS
from carms.lab.contest.times import (
    PARTS,
    STEPS,
    WARM_UP,
    Times,
    measure,
    read_times,
    write_times,
)


class Clocked(MadeUp):
    """A step of an entry takes its slope in seconds, of a clock of its own."""

    clock = 0.0
    order: tuple[str, ...] = ()
    failure: Exception | None = None

    def __init__(self, entry, rate, seed):
        super().__init__(entry, rate, seed)
        self.name = entry.name
        self.weight = torch.zeros(1)

    @property
    def parameters(self):
        return [self.weight]

    def step(self):
        # The model has taken so many steps, of whichever entry.
        slowness = 1 + int(self.weight) // 100 if self.name == "good" else 1
        warming_up = self.steps % (WARM_UP + STEPS) < WARM_UP
        Clocked.clock += self.slope * slowness * (100 if warming_up else 1)
        self.weight += 1
        if Clocked.order[-1:] != (self.name,):
            Clocked.order += (self.name,)
        if self.lost and self.failure and self.steps > 30:
            raise self.failure
        return super().step()


@pytest.fixture
def clocked(monkeypatch):
    monkeypatch.setattr(Clocked, "order", ())
    monkeypatch.setattr(module.time, "thread_time", lambda: Clocked.clock)
    return replace(TASK, start=Clocked)


def test_steps_are_measured_in_turns_after_a_warm_up(clocked):
    found = measure(clocked, 2.0, range(3))
    assert found.seconds["good"] == pytest.approx([STEPS * 2.0] * 3)
    assert found.pace("good", "loorf").whole.value == 2.0
    assert found.covers(TASK)
    turn = ("loorf", "good", "bad", "lost")
    # The last of a part is the first of the next one, without a pause.
    assert Clocked.order == (*turn, "bad", "good", "loorf", "good", "bad", "lost")


def test_steps_are_measured_on_the_model_that_the_reference_has_by_then(clocked):
    """Steps of "good" take longer from step 100 of the training on, and again from 200 on."""
    found = measure(replace(clocked, steps=PARTS * 50), 2.0, range(5))
    # In the middle of the parts the model has taken 25, 75, ... steps.
    assert found.pace("good", "loorf").ratios == pytest.approx([2.0, 2.0, 4.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ValueError("of f"), "ValueError: of f"),
        (RuntimeError("of f"), "RuntimeError: of f"),
        (FloatingPointError("of f"), "diverged: of f"),
    ],
)
def test_what_fails_has_a_reason_and_no_time(clocked, monkeypatch, failure, reason):
    monkeypatch.setattr(Clocked, "failure", failure)
    found = measure(clocked, 2.0, range(3))
    assert found.failed == {"lost": reason}
    assert [*found.seconds] == ["loorf", "good", "bad"]
    assert found.pace("lost", "loorf") is None
    assert found.pace("loorf", "lost") is None
    assert found.covers(TASK)


def test_without_the_reference_there_are_no_times():
    assert not Times("", {"good": [1.0]}, dict.fromkeys(("loorf", "bad", "lost"), "")).covers(TASK)

    def start(entry, rate, seed):
        learner = MadeUp(entry, rate, seed)
        learner.lost = entry.name == "loorf"
        learner.seed = 1
        return learner

    with pytest.raises(FloatingPointError, match="objective is nan"):
        measure(replace(TASK, start=start), 2.0, range(1))


def test_what_cannot_start_has_a_reason_and_no_time():
    def start(entry, rate, seed):
        if entry.name == "bad":
            raise ValueError("of f")
        return MadeUp(entry, rate, seed)

    task = replace(TASK, start=start)
    assert measure(task, 2.0, range(1)).failed == {"bad": "ValueError: of f"}


def test_an_objective_that_is_no_number_has_no_time(clocked):
    class Diverging(Clocked):
        def step(self):
            return super().step() * (math.nan if self.name == "bad" else 1)

    found = measure(replace(clocked, start=Diverging), 2.0, range(1))
    assert found.failed == {"bad": "diverged: the objective is nan"}


@pytest.mark.parametrize("failure", [RuntimeError("can't allocate memory"), MemoryError()])
def test_a_machine_without_memory_has_no_times(clocked, monkeypatch, failure):
    monkeypatch.setattr(Clocked, "failure", failure)
    with pytest.raises(type(failure)):
        measure(clocked, 2.0, range(3))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_all_entries_of_a_task_have_the_same_parameters(task):
    """So that they can be timed on the same models."""
    if task.dataset:
        pytest.skip("its images are not part of the package")
    shapes = [
        [tuple(one.shape) for one in task.start(entry, task.rates[0], 0).parameters]
        for entry in task.entries()
        if not entry.reason
    ]
    assert shapes[0]
    assert all(own == shapes[0] for own in shapes)


def test_times_are_compared_within_parts():
    """The machine is ever slower; the ratio of the means is another one than their mean."""
    slow = [2.0**k for k in range(4)]
    own = [ratio * time for ratio, time in zip([3.0, 3.0, 1.0, 1.0], slow, strict=True)]
    pace = Times("", {"loorf": slow, "good": own}, {}).pace("good", "loorf")
    assert pace.ratios == [3.0, 3.0, 1.0, 1.0]
    assert pace.whole.value == 2.0
    assert sum(own) / sum(slow) == 1.4
    assert [pace.after(share) for share in (0, 0.25, 0.375, 0.5, 1)] == [0, 0.75, 1.125, 1.5, 2]


def test_times_are_read_as_they_were_written(tmp_path):
    assert read_times(tmp_path, TASK) is None
    times = Times("a machine", {"loorf": [0.125] * PARTS}, {"lost": "diverged"})
    write_times(tmp_path, TASK, times)
    assert read_times(tmp_path, TASK) == times
    write_times(tmp_path, TASK, made_up_times({"good": 1.0}))
    assert [*read_times(tmp_path, TASK).seconds] == ["good"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (None, "it does not have machine, seconds and failed"),
        ({"steps": 20}, "it does not have machine, seconds and failed"),
        ({"machine": 1}, "the machine is no text"),
        ({"seconds": []}, "seconds are no object"),
        ({"failed": {"a": 1}}, "reasons of failures are no texts"),
        ({"failed": []}, "reasons of failures are no texts"),
        ({"seconds": {"a": 1}}, "times of a are not 6 positive numbers or more"),
        ({"seconds": {"a": [1.0] * 5}}, "times of a are not 6 positive numbers or more"),
        ({"seconds": {"a": [1.0] * 15 + [0]}}, "times of a are not 6 positive"),
        ({"seconds": {"a": [1.0] * 15 + [1e300]}}, "times of a are not 6 positive"),
        ({"seconds": {"a": [1.0] * 15 + ["1"]}}, "times of a are not 6 positive"),
        ({"seconds": {"a": [1.0] * 15 + [True]}}, "times of a are not 6 positive"),
        ({"seconds": {"a": [1.0] * 16, "b": [1.0] * 15}}, "different numbers of parts"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, changes, message):
    path = tmp_path / "made-up.times.json"
    record = {"machine": "m", "seconds": {"a": [1.0] * 16}, "failed": {}}
    path.write_text(json.dumps({} if changes is None else {**record, **changes}))
    with pytest.raises(ValueError, match=f"is damaged: .*{message}.*; delete it") as error:
        read_times(tmp_path, TASK)
    assert str(path) in str(error.value)


def test_a_file_that_is_no_json_is_named_once(tmp_path):
    path = tmp_path / "made-up.times.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="delete it to measure anew") as error:
        read_times(tmp_path, TASK)
    assert str(error.value).count(str(path)) == 1
