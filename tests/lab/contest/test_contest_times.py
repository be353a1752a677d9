"""Times of the steps of a task: what is measured is read, and what is damaged is named."""

import json
import math
from dataclasses import replace

import pytest
from small_contest import TASK, MadeUp, made_up_times

from carms.lab.contest import times as module
from carms.lab.contest.times import (
    ROUNDS,
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

    def step(self):
        Clocked.clock += self.slope * (100 if self.steps % (WARM_UP + STEPS) < WARM_UP else 1)
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
    found = measure(clocked, range(3))
    assert found.seconds["good"] == pytest.approx([STEPS * 2.0] * 3)
    assert found.relative("good", "loorf").value == 2.0
    assert found.covers(TASK)
    turn = ("loorf", "good", "bad", "lost")
    # The last of a round is the first of the next one, without a pause.
    assert Clocked.order == (*turn, "bad", "good", "loorf", "good", "bad", "lost")


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ValueError("of f"), "ValueError: of f"),
        (IndexError("of f"), "IndexError: of f"),
        (FloatingPointError("of f"), "diverged: of f"),
    ],
)
def test_what_fails_has_a_reason_and_no_time(clocked, monkeypatch, failure, reason):
    monkeypatch.setattr(Clocked, "failure", failure)
    found = measure(clocked, range(3))
    assert found.failed == {"lost": reason}
    assert [*found.seconds] == ["loorf", "good", "bad"]
    assert found.relative("lost", "loorf") is None
    assert found.relative("loorf", "lost") is None
    assert found.covers(TASK)


def test_what_cannot_start_has_a_reason_and_no_time():
    def start(entry, rate, seed):
        if entry.name == "bad":
            raise TypeError("of f")
        return MadeUp(entry, rate, seed)

    assert measure(replace(TASK, start=start), range(1)).failed == {"bad": "TypeError: of f"}


def test_an_objective_that_is_no_number_has_no_time(clocked):
    class Diverging(Clocked):
        def step(self):
            return super().step() * (math.nan if self.name == "bad" else 1)

    found = measure(replace(clocked, start=Diverging), range(1))
    assert found.failed == {"bad": "diverged: the objective is nan"}


def test_a_machine_without_memory_has_no_times(clocked, monkeypatch):
    monkeypatch.setattr(Clocked, "failure", RuntimeError("can't allocate memory"))
    with pytest.raises(RuntimeError, match="allocate memory"):
        measure(clocked, range(3))


def test_times_are_compared_within_rounds():
    """The machine is ever slower; the ratio of the medians is another one than their median."""
    slow = [2.0**k for k in range(9)]
    ratios = [9.0, 9.0, 9.0, 9.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    own = [ratio * time for ratio, time in zip(ratios, slow, strict=True)]
    relative = Times("", {"loorf": slow, "good": own}, {}).relative("good", "loorf")
    assert (relative.value, relative.low, relative.high) == (2.0, 1.0, 9.0)
    assert sorted(own)[4] / sorted(slow)[4] == 2.25


def test_times_are_read_as_they_were_written(tmp_path):
    assert read_times(tmp_path, TASK) is None
    times = Times("a machine", {"loorf": [0.125] * ROUNDS}, {"lost": "diverged"})
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
        ({"seconds": {"a": 1}}, "times of a are no list of 16 positive"),
        ({"seconds": {"a": []}}, "times of a are no list of 16 positive"),
        ({"seconds": {"a": [1.0] * 15 + [0]}}, "times of a are no list of 16 positive"),
        ({"seconds": {"a": [1.0] * 15 + [1e300]}}, "times of a are no list of 16 positive"),
        ({"seconds": {"a": [1.0] * 15 + ["1"]}}, "times of a are no list of 16 positive"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, changes, message):
    path = tmp_path / "made-up.times.json"
    record = {"machine": "m", "seconds": {"a": [1.0] * 16}, "failed": {}}
    path.write_text(json.dumps({} if changes is None else {**record, **changes}))
    with pytest.raises(ValueError, match=f"is damaged: .*{message}.*; delete it") as error:
        read_times(tmp_path, TASK)
    assert str(path) in str(error.value)
