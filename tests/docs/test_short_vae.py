"""The paper's first table at a tenth of its steps: runs are trained once, and shown in rows."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from carms.lab.runs.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """The benchmark with a table of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    short_vae = importlib.import_module("short_vae")
    monkeypatch.setattr(short_vae, "TABLE", tmp_path / "short_vae.csv")
    return short_vae


def test_a_run_in_the_table_is_not_trained_again(benchmark, monkeypatch, tmp_path, capsys):
    run = Settings(dataset="digits", categories=3, estimator="loorf", steps=5, eval_samples=2)
    grid = [run, replace(run, estimator="carms-s")]
    monkeypatch.setattr(benchmark, "read_grid", lambda name: grid)
    benchmark.train(tmp_path / "runs")
    assert capsys.readouterr().out.count("is done") == 2
    found = benchmark.read(benchmark.TABLE)
    assert [row["estimator"] for row in found] == ["loorf", "carms-s"]
    assert all(float(row["test"]) < 0 for row in found)
    benchmark.train(tmp_path / "other runs")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "other runs").exists()


def test_rows_have_the_figures_of_the_paper_and_dashes_for_what_is_missing(benchmark):
    assert len(benchmark.rows_of_table()) == 1
    row = {"dataset": "omniglot", "network": "linear", "categories": 3, "estimator": "carms-s"}
    benchmark.add(benchmark.TABLE, [{**row, "train": "-1.00", "test": "-2.00"}], benchmark.KEY)
    header, found = benchmark.rows_of_table()
    assert header[3:7] == ["`loorf`", "`carms-i`", "`carms-s`", "`carms-t`"]
    assert found[:7] == ["omniglot", "linear", "3", "-", "-", "-1.00 / -2.00", "-"]
    settings = Settings(dataset="omniglot", network="linear", categories=3, estimator="loorf")
    paper = [benchmark.printed(settings, part) for part in ("train", "test")]
    assert found[7] == " / ".join(f"{cell.mean:.2f}" for cell in paper)
