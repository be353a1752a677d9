"""The table of training runs: what is cut is noticed, and a run is in it once."""

import importlib
from pathlib import Path

import pytest

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
    run = [row for row in rows if benchmark.run_of(row) == benchmark.run_of(last)]
    benchmark.add(benchmark.TABLE, run)
    assert benchmark.is_done(*which)
    assert benchmark.TABLE.read_bytes() == (ROOT / "docs/results/training.csv").read_bytes()


def test_every_run_of_the_table_is_there_to_its_last_step(benchmark):
    rows = benchmark.read(benchmark.TABLE)
    ended = [benchmark.run_of(row) for row in rows if int(row["step"]) == benchmark.STEPS]
    assert sorted(ended) == sorted({benchmark.run_of(row) for row in rows})


def test_a_table_that_cannot_be_written_stays_as_it_is(benchmark):
    """The new rows are written beside it first."""
    before = benchmark.TABLE.read_bytes()
    benchmark.TABLE.parent.joinpath("training.csv.partial").mkdir()
    with pytest.raises(OSError, match=r"cannot write .*training.csv"):
        benchmark.add(benchmark.TABLE, benchmark.read(benchmark.TABLE)[-1:])
    assert benchmark.TABLE.read_bytes() == before
