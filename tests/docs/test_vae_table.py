"""Rows of the paper's first table: runs are trained once, and shown beside its figures."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from carms.lab.runs.settings import Settings
from carms.lab.sweep.grid import read_grid

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """The benchmark with a table of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    vae_table = importlib.import_module("vae_table")
    monkeypatch.setattr(vae_table, "TABLE", tmp_path / "vae_table.csv")
    return vae_table


def test_the_page_shows_the_runs_as_they_are(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    vae_table = importlib.import_module("vae_table")
    page, again = ROOT / "docs" / "results" / "reproduction.md", tmp_path / "page.md"
    again.write_text(page.read_text())
    for mark, rows in vae_table.tables().items():
        vae_table.put_table(again, mark, rows)
    assert again.read_text() == page.read_text()


def put(benchmark, run, train, test):
    row = dict(zip(benchmark.KEY, benchmark.key_of_run(run), strict=True))
    benchmark.add(benchmark.TABLE, [{**row, "train": train, "test": test}], benchmark.KEY)


def test_a_run_in_the_table_is_not_trained_again(benchmark, tmp_path, capsys):
    run = Settings(dataset="digits", categories=3, estimator="loorf", steps=5, eval_samples=2)
    runs = [run, replace(run, estimator="carms-s"), replace(run, seed=1)]
    benchmark.train(runs, tmp_path / "runs")
    assert capsys.readouterr().out.count("is done") == 3
    found = benchmark.read(benchmark.TABLE)
    assert [row["estimator"] for row in found] == ["loorf", "carms-s", "loorf"]
    assert all(float(row["test"]) < 0 for row in found)
    benchmark.train(runs, tmp_path / "other runs")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "other runs").exists()


def test_rows_have_the_figures_of_the_paper_and_dashes_for_what_is_missing(benchmark):
    runs = read_grid("short-vae")
    assert len(benchmark.rows_of_table(runs)) == 1
    (run,) = (
        run
        for run in runs
        if (*benchmark.key_of_run(run)[:4],) == ("omniglot", "linear", "3", "carms-s")
    )
    put(benchmark, run, "-1.00", "-2.00")
    # Another number of steps, or another seed, is another run.
    put(benchmark, replace(run, estimator="loorf", steps=10**6), "-3.00", "-4.00")
    header, found = benchmark.rows_of_table(runs)
    assert header[3:7] == ["`loorf`", "`carms-i`", "`carms-s`", "`carms-t`"]
    assert found[:7] == ["omniglot", "linear", "3", "-", "-", "-1.00 / -2.00", "-"]
    settings = Settings(dataset="omniglot", network="linear", categories=3, estimator="loorf")
    paper = [benchmark.printed(settings, part) for part in ("train", "test")]
    assert found[7] == " / ".join(f"{cell.mean:.2f}" for cell in paper)


def test_leads_are_differences_to_loorf_in_rows_that_have_it(benchmark):
    runs = read_grid("short-vae")
    row = [run for run in runs if benchmark.key_of_run(run)[:3] == ("omniglot", "linear", "3")]
    by_name = {run.estimator: run for run in row}
    put(benchmark, by_name["carms-t"], "-1.00", "-2.50")
    assert len(benchmark.rows_of_leads(runs)) == 1
    put(benchmark, by_name["loorf"], "-1.25", "-2.00")
    header, found = benchmark.rows_of_leads(runs)
    assert header[3:] == ["`carms-i`", "`carms-s`", "`carms-t`"]
    assert found == ["omniglot", "linear", "3", "-", "-", "+0.25 / -0.50"]


def test_runs_with_all_steps_have_a_row_each(benchmark):
    runs = benchmark.long_runs()
    assert {run.steps for run in runs} == {10**6}
    put(benchmark, runs[1], "-1.00", "-2.00")
    _, row = benchmark.rows_of_long_table(runs)
    assert row == ["`loorf`", "1", "-1.00 / -2.00", "-105.64 / -105.17"]
