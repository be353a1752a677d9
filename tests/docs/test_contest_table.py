"""The table of the contest on the pages is that of its results."""

import importlib
from pathlib import Path

import pytest

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
