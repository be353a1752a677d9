"""Tables of runs beside those of the paper, and the formats in which they are written."""

import csv

import pytest
from rich.console import Console
from written_runs import write_good_runs, write_run

from carms.lab.cli.report import Report
from carms.lab.report.blocks import changed_settings
from carms.lab.report.inventory import list_runs
from carms.lab.report.sheets import to_latex, to_markdown
from carms.lab.report.table_texts import to_csv, to_sheet
from carms.lab.report.tables import make_tables, missing_tables
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_good_runs(tmp_path_factory.mktemp("runs"))


def row_of(tables, estimator, part="train", **where):
    where = {"dataset": "dynamic-mnist"} | where
    (table,) = [
        table
        for table in tables
        if table.part == part and all(getattr(table, k) == v for k, v in where.items())
    ]
    (row,) = [row for row in table.rows if (row.categories, row.estimator) == (3, estimator)]
    return row


def test_numbers_of_a_table(directory):
    tables = make_tables(gather([directory]).runs)
    loorf = row_of(tables, "loorf")
    assert loorf.values == [-105.0, -105.5, -106.0]
    assert loorf.mean == pytest.approx(-105.5)
    assert loorf.deviation == pytest.approx(0.5)
    assert str(loorf.paper) == "-105.64 +- 0.23"
    assert loorf.difference == pytest.approx(0.14 / (0.5**2 + 0.23**2) ** 0.5)
    unord = row_of(tables, "unord")
    assert (unord.mean, unord.deviation, unord.difference) == (-104.0, None, None)
    # The mean of a single run is not called the best, even if it is the highest.
    assert [unord.best, loorf.best] == [False, False]
    assert [row_of(tables, name, "test").best for name in ("unord", "loorf")] == [False, True]
    assert unord.paper_best
    assert not loorf.paper_best


def test_what_is_not_there_says_so(directory):
    runs = gather([directory]).runs
    tables = make_tables(runs)
    partial = row_of(tables, "carms-s")
    assert partial.mean is None
    assert partial.partial == "seed 0 at step 20 of 40"
    text = to_markdown(to_sheet(tables[0]))
    assert "| 3 | carms-i | no runs | 0 | -105.34 ± 0.25 |" in text
    assert "| 3 | carms-s | no finished run | 0 | not in the paper |" in text
    assert "| 3 | loorf | -105.500 ± 0.500 | 3 | -105.64 ± 0.23 | +0.25 |" in text
    assert "| 3 | unord | -104.000 | 1 | **-105.23 ± 0.23** |  |" in text
    assert "vae, dynamic-mnist, linear" not in missing_tables(runs)
    assert "complete, omniglot, nonlinear" in missing_tables(runs)
    digits = to_sheet(tables[-1])
    assert "The paper has no such table." in digits.note
    assert "paper" not in digits.headings


def test_only_runs_that_may_be_compared_compete(tmp_path):
    for name, changes in {
        "a": {"estimator": "loorf"},
        "b": {"estimator": "carms-s"},
        "c": {"estimator": "loorf", "steps": 80},
        "d": {"estimator": "carms-i", "options": ("orderings=largest-first",)},
    }.items():
        mean = -30 - ord(name) / 1e7
        for seed in range(2):
            path = tmp_path / f"{name}{seed}"
            write_run(path, (mean, mean), dataset="digits", seed=seed, **changes)
    rows = make_tables(gather([tmp_path]).runs)[0].rows
    found = {(row.estimator, row.settings): row.best for row in rows}
    # They look alike with three digits; the best is the best nevertheless.
    assert found == {
        ("loorf", "steps 40"): True,
        ("carms-s", "steps 40"): False,
        ("carms-i", "orderings=largest-first, steps 40"): False,
        ("loorf", "steps 80"): False,
    }
    printed = list(csv.DictReader(to_csv(make_tables(gather([tmp_path]).runs)).splitlines()))
    assert printed[0]["settings"] == "rate 0.001, orderings=largest-first, steps 40"
    assert float(printed[0]["mean"]) == -30 - ord("d") / 1e7


def test_seeds_are_one_row_however_they_were_logged(tmp_path):
    for seed, changes in enumerate([{}, {"log_every": 5, "eval_every": 10}]):
        write_run(tmp_path / f"seed{seed}", (-1.0 - seed, -2.0), seed=seed, **changes)
    write_run(tmp_path / "twice", (-1.0, -2.0), seed=0, checkpoint_every=7)
    runs, problems = gather([tmp_path])
    group, *others = [row.runs for row in make_tables(runs)[0].rows if row.runs]
    assert not others
    assert [run.settings.seed for run in group] == [0, 1]
    (problem,) = problems
    assert "the same settings and seed" in problem


def test_a_setting_of_yes_or_no_is_told_in_words():
    assert changed_settings(Settings(upright=False, steps=2000), ["upright", "steps"]) == (
        "not upright, steps 2,000"
    )


def test_categories_with_runs_come_first(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0), network="linear", categories=5, estimator="loorf")
    table = make_tables(gather([tmp_path]).runs)[0]
    assert list(dict.fromkeys(row.categories for row in table.rows)) == [5, 3, 10]
    assert table.rows[0].runs
    assert "difference" not in to_sheet(table).headings


def test_names_are_not_markup(tmp_path):
    name = r"a_b & c|d% \x {1} *s* `t` <u>"
    write_run(tmp_path / "run", (-1.0, -2.0), dataset=name)
    table = make_tables(gather([tmp_path]).runs)[0]
    assert r"a\_b \& c\textbar{}d\% \textbackslash{}x \{1\} *s*" in to_latex(to_sheet(table))
    assert r"a\_b &amp; c\|d% \\x \{1\} \*s\* \`t\` &lt;u&gt;" in to_markdown(to_sheet(table))
    assert next(csv.DictReader(to_csv([table]).splitlines()))["dataset"] == name


@pytest.mark.parametrize(
    ("name", "start"),
    [("html", "<!DOCTYPE html>"), ("markdown", "**vae"), ("csv", "task,"), ("latex", "% needs")],
)
def test_formats(directory, tmp_path, monkeypatch, capsys, name, start):
    monkeypatch.chdir(tmp_path)
    Report((directory,), format=name).run(Console(soft_wrap=True))
    (written,) = tmp_path.iterdir()
    assert written.read_text("utf-8").startswith(start)
    assert f"written to {written.name}" in capsys.readouterr().out


def test_the_ending_of_a_report_tells_its_format(directory, tmp_path):
    Report((directory,), tmp_path / "a.MD").run(Console(quiet=True))
    assert (tmp_path / "a.MD").read_text().startswith("**vae")


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        ("config.json", None, r"ends in one of \.html, \.md, \.csv, \.tex, got '.*config.json'"),
        ("a.md", "html", r"a report as html ends in \.html, got '.*a\.md'"),
        ("a", "csv", r"a report as csv ends in \.csv"),
    ],
)
def test_a_report_does_not_replace_a_file_of_another_kind(tmp_path, name, wanted, message):
    folder = tmp_path / "run"
    write_run(folder)
    (folder / "a.md").write_text("mine")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        Report((folder,), folder / name, wanted).run(Console(quiet=True))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_list_of_runs_has_their_minutes(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0))
    path = tmp_path / "run" / "result.json"
    path.write_text(path.read_text().replace('"training_seconds": 1.5', '"training_seconds": 90.0'))
    sheet = list_runs(gather([tmp_path]).runs)
    found = dict(zip(sheet.headings, (field.text for field in sheet.rows[0]), strict=True))
    assert (found["minutes"], found["ms a step"], found["step"]) == ("1.5", "2.50", "40")
