"""The table of training runs: what is cut is noticed, and a run is in it once."""

import importlib
import os
from pathlib import Path

import pytest

from carms.lab.contest.statistics import Mean

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """The benchmark, with a copy of its table."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    training = importlib.import_module("training")
    copy = tmp_path / "training.csv"
    copy.write_bytes(training.TABLE.read_bytes())
    monkeypatch.setattr(training, "TABLE", copy)
    return training


def test_a_table_that_is_cut_inside_a_number_is_refused(benchmark):
    text = benchmark.TABLE.read_text()
    benchmark.TABLE.write_text(text[:-5])
    last = text.count("\n")
    with pytest.raises(ValueError, match=rf"training.csv is damaged in line {last}: it is cut off"):
        benchmark.read(benchmark.TABLE)
    benchmark.TABLE.write_text("")
    with pytest.raises(ValueError, match="is damaged in line 1: it is cut off"):
        benchmark.read(benchmark.TABLE)


def test_a_run_without_its_last_step_is_not_done_and_is_added_once(benchmark):
    rows = benchmark.read(benchmark.TABLE)
    last = rows[-1]
    name, *options = last["estimator"].split()
    variant = benchmark.Variant(name, tuple(options), int(last["samples"]))
    which = variant, last["network"], int(last["seed"])
    assert benchmark.is_done(*which)
    benchmark.write(benchmark.TABLE, rows[:-1])
    assert not benchmark.is_done(*which)
    key = benchmark.key_of(last, benchmark.KEY)
    run = [row for row in rows if benchmark.key_of(row, benchmark.KEY) == key]
    benchmark.add(benchmark.TABLE, run, benchmark.KEY)
    assert benchmark.is_done(*which)
    assert benchmark.TABLE.read_bytes() == (ROOT / "docs/results/training.csv").read_bytes()


def test_every_run_of_the_table_is_there_to_its_last_step(benchmark):
    rows = benchmark.read(benchmark.TABLE)
    keys = [benchmark.key_of(row, benchmark.KEY) for row in rows]
    ended = [
        key for key, row in zip(keys, rows, strict=True) if int(row["step"]) == benchmark.STEPS
    ]
    assert sorted(ended) == sorted(set(keys))


def test_a_table_that_cannot_be_written_stays_as_it_is(benchmark, monkeypatch):
    """The new rows are written beside it first."""
    before = benchmark.TABLE.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*training.csv"):
        benchmark.add(benchmark.TABLE, benchmark.read(benchmark.TABLE)[-1:], benchmark.KEY)
    assert benchmark.TABLE.read_bytes() == before


def table_of_two_estimators(benchmark, monkeypatch):
    """A table whose seeds differ by 10, and in which carms-t, with one seed, is 1 ahead."""
    results = importlib.import_module("training_results")
    monkeypatch.setattr(results, "TABLE", benchmark.TABLE)
    runs = [("loorf", 0, 0.0), ("loorf", 1, 10.0), ("loorf", 2, 20.0), ("carms-t", 0, 1.0)]
    rows = [
        {
            "network": "linear",
            "estimator": name,
            "samples": 10,
            "seed": seed,
            "step": step,
            "objective": level + step / 1000,
            "test_bound": level + step / 1000,
        }
        for name, seed, level in runs
        for step in range(benchmark.EVERY, benchmark.STEPS + 1, benchmark.EVERY)
    ]
    benchmark.write(benchmark.TABLE, rows)
    return results


def test_only_runs_of_the_same_seed_are_compared(benchmark, monkeypatch):
    results = table_of_two_estimators(benchmark, monkeypatch)
    picture = importlib.import_module("training_picture")
    found = results.runs("test_bound")
    own, reference = (found["linear", name, 10] for name in ("carms-t", "loorf"))
    at_steps = picture.mean_leads(own, reference, 1.0, 5000)
    assert min(at_steps) == 5000
    assert set(at_steps.values()) == {1.0}
    # A step of twice the time is compared with one of twice the number, as far as there are some.
    at_time = picture.mean_leads(own, reference, 2.0, 5000)
    assert max(at_time) == benchmark.STEPS // 2
    assert at_time[10_000] == pytest.approx(1 + 10 - 20)


def test_values_are_interpolated_between_steps_and_not_beyond_them(benchmark):
    results = importlib.import_module("training_results")
    run = {2500: 1.0, 5000: 2.0}
    values = [results.at_time(run, 0.5, budget) for budget in (1000, 1250, 1875, 2500, 2600)]
    assert values == [None, 1.0, 1.5, 2.0, None]


def test_a_variant_whose_time_was_not_measured_has_dashes(benchmark, monkeypatch, capsys):
    table_of_two_estimators(benchmark, monkeypatch)
    one = Mean(1.0, 1.0, 1.0)
    monkeypatch.setattr(benchmark, "times", lambda: {("linear", "loorf", 10): one})
    benchmark.show(20_000, None)
    benchmark.show_leads(20_000, None)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {line[0]: line for line in lines if line and line[0] in ("loorf", "carms-t")}
    assert rows["carms-t"][-3:] == ["-", "-", "-"]
    assert rows["loorf"][-3:] == ["1.00", "30.00", "30.00"]


def test_leads_by_other_times_are_those_at_the_ends_of_both_intervals(benchmark, monkeypatch):
    """A nat per 1,000 steps: a tenth more time of one or less of the other costs two nats each."""
    results = table_of_two_estimators(benchmark, monkeypatch)
    lines = [("linear", name, 10) for name in ("carms-t", "loorf")]
    found = dict.fromkeys(lines, Mean(1.0, 1 / 1.1, 1 / 0.9))
    monkeypatch.setattr(results, "times", lambda: found)
    assert results.leads_of_times(*lines, 20_000) == pytest.approx((1 - 4, 1 + 4))
    assert results.leads_of_times(*lines, 50_000) is None


def test_times_are_measured_in_turns_and_compared_within_rounds(benchmark, monkeypatch, tmp_path):
    seconds = {10: 1.0, 2: 3.0}
    turn = benchmark.WARM_UP + benchmark.TIMED
    order, clock = [], [0.0]

    class Clocked:
        """The machine gets slower from round to round, and its first steps are slow."""

        def __init__(self, settings, data):
            self.samples, self.steps = settings.samples, 0

        def one_step(self):
            rounds, step = divmod(self.steps, turn)
            clock[0] += seconds[self.samples] * 2**rounds * (100 if step < benchmark.WARM_UP else 1)
            self.steps += 1
            if step == 0:
                order.append(self.samples)

    variants = [benchmark.Variant("loorf", (), samples) for samples in seconds]
    monkeypatch.setattr(benchmark, "variants", lambda: variants)
    monkeypatch.setattr(benchmark, "Learner", Clocked)
    monkeypatch.setattr(benchmark, "load", lambda name: None)
    monkeypatch.setattr(benchmark, "NETWORKS", ("linear",))
    monkeypatch.setattr(benchmark, "TIMES", tmp_path / "times.csv")
    monkeypatch.setattr(benchmark.time, "thread_time", lambda: clock[0])
    benchmark.measure(3)
    assert order == [10, 2, 2, 10, 10, 2]
    rows = benchmark.read(benchmark.TIMES)
    shown = [(row["samples"], row["time"], row["low"], row["high"]) for row in rows]
    assert shown == [("10", *["1.0000"] * 3), ("2", *["3.0000"] * 3)]
