"""The page of the contest, and its table on other pages, are those of its results."""

import importlib
import shlex
from pathlib import Path

import pytest

from carms.lab.contest.contest import read_contest
from carms.lab.contest.markdown import to_page

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(ROOT)
    return importlib.import_module("contest_tables")


def test_the_pages_show_the_results_as_they_are(tables, tmp_path):
    rows = tables.read_table()
    assert len(rows) == 1 + len(tables.ESTIMATORS)
    for page in tables.PAGES:
        again = tmp_path / page.name
        again.write_text(page.read_text())
        tables.put_table(again, "contest", rows)
        assert again.read_text() == page.read_text()


def test_the_page_shows_the_results_as_they_are(monkeypatch):
    monkeypatch.chdir(ROOT)
    folder, page = Path("docs/results/contest"), Path("docs/results/contest.md")
    command = ["carms", "report", str(folder), "--format", "markdown", "--out", str(page)]
    assert page.read_text() == to_page(read_contest(folder), "contest.png", shlex.join(command))
