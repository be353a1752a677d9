"""Directories that nobody vouches for: what is read of them, and what is shown."""

import csv
import json
import os
import sys
import warnings

import pytest
from written_runs import PICTURE, page_of, write_run

from carms.lab.cli.console import PlainConsole
from carms.lab.cli.main import main
from carms.lab.cli.plot import Plot
from carms.lab.cli.report import Report
from carms.lab.figures.png import read_picture
from carms.lab.report.blocks import make_blocks
from carms.lab.report.curves import draw_curves
from carms.lab.report.paper import printed
from carms.lab.report.pictures import embed_pictures
from carms.lab.report.table_texts import to_csv
from carms.lab.report.tables import make_tables
from carms.lab.runs.gather import gather
from carms.lab.runs.progress import reached
from carms.lab.runs.reading import read_bounded
from carms.lab.runs.settings import Settings

ESCAPE = "\x1b]0;owned\x07\x1b[2J"


def pictures_of(path):
    return embed_pictures(make_blocks(gather([path]).runs))


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def folder(path):
    path.unlink()
    path.mkdir()


def sparse(path):
    os.truncate(path, 1 << 40)


IN_THE_PLACE_OF_A_FILE = [fifo, device, link, folder, sparse]


def test_only_regular_files_of_bounded_size_are_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(ValueError, match="file has 5 bytes, more than 4"):
        read_bounded(path, 4)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "nothing", 5)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which files are open")
@pytest.mark.parametrize("place", IN_THE_PLACE_OF_A_FILE)
def test_nothing_but_a_regular_file_is_read(tmp_path, place):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    place(path)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises((OSError, ValueError), match="file"):
        read_bounded(path, 5)
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("place", IN_THE_PLACE_OF_A_FILE)
@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "result.json", "samples.png"])
def test_what_is_no_file_is_left_out(tmp_path, name, place):
    write_run(tmp_path / "good", (-1.0, -2.0), dataset="digits", seed=1)
    found = write_run(tmp_path / "bad", (-1.0, -2.0), dataset="digits")
    path = tmp_path / "bad" / name
    place(path)
    runs, problems = gather([tmp_path])
    assert runs[-1].path.name == "good"
    if name != "samples.png" and (name, place) != ("config.json", folder):
        (problem,) = problems
        assert str(path) in problem
        assert "left out" in problem
    assert pictures_of(tmp_path).count("data:image/png") == 1
    now = reached(tmp_path / "bad", found)
    assert (now.state == "begun") == (name == "result.json")
    assert now.step == (0 if name == "metrics.jsonl" else 40)


def test_metrics_of_a_finished_run_that_are_missing_are_named(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0), dataset="digits")
    (tmp_path / "run" / "SHA256SUMS").write_text(f"{'0' * 64}  metrics.jsonl\n")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (problem,) = gather([tmp_path]).problems
    assert "metrics.jsonl" in problem
    assert "it is missing" in problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": ["digits"]}, "dataset must be str, got ['digits']"),
        ({"dataset": 5}, "dataset must be str, got 5"),
        ({"dataset": None}, "dataset must be str, got None"),
        ({"options": "a=1"}, "options must be tuple, got 'a=1'"),
        ({"options": None}, "options must be tuple, got None"),
        ({"options": ["hidden"]}, "name=value, got 'hidden'"),
        ({"latents": 1.5}, "latents must be int or none, got 1.5"),
        ({"\x1b[31m": 1}, r"there is \x1b[31m"),
        ({"dataset": ["x" * 10_000]}, "xxx…"),
        ({"steps": 10**30}, "steps must be below 2^63"),
    ],
    ids=range(10),
)
def test_a_bad_config_is_left_out_in_one_line(tmp_path, changes, message):
    write_run(tmp_path / "good", (-1.0, -2.0), dataset="digits", seed=1)
    config = write_run(tmp_path / "bad", (-1.0, -2.0)).to_json() | changes
    (tmp_path / "bad" / "config.json").write_text(json.dumps(config))
    (run,), (problem,) = gather([tmp_path])
    assert run.path.name == "good"
    assert problem.startswith(f"{tmp_path / 'bad' / 'config.json'}: not the settings of a run (")
    assert message in problem
    assert len(problem) < 600
    assert problem.isprintable()


def test_estimators_are_not_made_to_read_about_them(tmp_path, monkeypatch):
    settings = {"estimator": "rodeo", "categories": 3, "latents": 2}
    config = Settings(**settings).to_json() | {"options": ["hidden=-1"], "samples": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))

    def make(*arguments, **options):
        raise AssertionError("an estimator is made")

    monkeypatch.setattr("carms.estimators.make", make)
    (run,), problems = gather([tmp_path])
    assert run.settings.options == ("hidden=-1",)
    assert not problems


def test_metrics_that_are_all_bad_are_not_read_to_their_end(tmp_path):
    write_run(tmp_path / "run")
    good = (tmp_path / "run" / "metrics.jsonl").read_text()
    (tmp_path / "run" / "metrics.jsonl").write_text(good + "[]\n" * 5000 + good)
    (run,), (problem,) = gather([tmp_path])
    assert run.step == 40
    assert "1,000 bad (line 5: it is no object; nothing is read after line 1,004)" in problem


LONG = "x" * 200_000
NAMES = [r"$\frac{$", "$x$ and $y", r"\$\frac{$$", "\ud800", LONG, ESCAPE, "a\nb"]


def test_names_are_drawn_as_they_are_written(tmp_path):
    for number, name in enumerate(NAMES):
        dataset = LONG if name == LONG else NAMES[0]
        write_run(tmp_path / "runs" / f"{number}", dataset=dataset, options=(f"{name}=1",))
    _, svg = draw_curves(make_blocks(gather([tmp_path / "runs"]).runs), tmp_path / "curves")
    drawn = svg.read_text()
    assert len(drawn) < 2_000_000
    for name in (NAMES[0], LONG[:100]):
        assert f"<!-- vae, {name}" in drawn
    for name in (*NAMES[:3], LONG[:40], r"\ud800", r"\x1b]0;owned\x07", r"a\nb"):
        assert f"<!-- carms-s, {name}" in drawn
    for out in ("a.html", "a.csv", "a.md", "a.tex"):
        Report((tmp_path / "runs",), tmp_path / out).run(PlainConsole(quiet=True))
        assert (tmp_path / out).read_text("utf-8")


@pytest.mark.parametrize("values", [(1e100, -1e100), (1e-320, 1e100), (0, 0), (-1, -2)])
def test_extreme_numbers_are_drawn(tmp_path, values):
    for seed in range(2):
        write_run(tmp_path / f"{seed}", (values[0], values[1]), seed=seed)
        numbers = {"objective": values[seed], "gradient_variance": values[seed], "milliseconds": 1}
        lines = [json.dumps({"step": step, **numbers}) for step in (10, 20)]
        (tmp_path / f"{seed}" / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    Plot((tmp_path,), tmp_path / "curves.png").run(PlainConsole(quiet=True))
    assert read_picture(tmp_path / "curves.png")
    assert page_of(tmp_path)


@pytest.mark.parametrize("first", "=+-@\t")
def test_a_spreadsheet_has_nothing_to_run(tmp_path, first):
    name = f"{first}HYPERLINK(1)"
    write_run(tmp_path / "run", (-1.0, -2.0), dataset=name)
    row = next(csv.DictReader(to_csv(make_tables(gather([tmp_path]).runs)).splitlines()))
    assert row["dataset"] == f"'{name}"
    assert float(row["mean"]) == -1.0


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path, capsys):
    path = tmp_path / ESCAPE
    write_run(path / ESCAPE, (-1.0, -2.0), dataset=ESCAPE)
    (path / "config.json").write_text("{")
    console = PlainConsole(force_terminal=True, color_system=None, width=1000)
    Plot((tmp_path,), tmp_path / "curves.png").run(console)
    Report((tmp_path,), path / "report.html").run(console)
    said = capsys.readouterr().out
    # The bar that shows that modules are loading has codes of its own, none of them of this kind.
    assert not any(code in said for code in ("\x1b]", "\x1b[2J", "\x07"))
    assert said.count(r"\x1b]0;owned\x07\x1b[2J") >= 4


def test_an_error_is_one_line_that_the_terminal_does_not_obey(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("warnings.formatwarning", warnings.formatwarning)
    monkeypatch.setattr("sys.argv", ["carms", "plot", str(tmp_path / f"{ESCAPE}\n")])
    with pytest.raises(SystemExit):
        main()
    warning = warnings.formatwarning(UserWarning(f"{ESCAPE}\n"), UserWarning, "file.py", 1)
    for said in (capsys.readouterr().err, warning):
        assert said.startswith("carms: ")
        assert said.endswith("\n")
        assert said[:-1].isprintable()


def test_an_error_on_a_terminal_breaks_between_words(monkeypatch, capsys):
    monkeypatch.setattr("warnings.formatwarning", warnings.formatwarning)
    monkeypatch.setattr("sys.argv", ["carms", "plot"])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == (
        "carms: no directory is given: give run directories, or directories of them"
    )


def test_a_linked_picture_is_not_shown(tmp_path):
    write_run(tmp_path / "runs", (-1.0, -2.0))
    picture = tmp_path / "runs" / "samples.png"
    picture.rename(tmp_path / "secret.png")
    picture.symlink_to(tmp_path / "secret.png")
    assert "data:image/png" not in pictures_of(tmp_path / "runs")


def test_a_torn_picture_is_not_shown(tmp_path):
    path = tmp_path / "runs" / "samples.png"
    write_run(tmp_path / "runs", (-1.0, -2.0))
    assert read_picture(path) == PICTURE
    for length in range(len(PICTURE)):
        path.write_bytes(PICTURE[:length])
        assert read_picture(path) is None, length
    assert "data:image/png" not in pictures_of(tmp_path / "runs")
    for place in range(len(PICTURE)):
        flipped = bytearray(PICTURE)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        assert read_picture(path) is None, place
    path.write_bytes(PICTURE + b"<script>")
    assert read_picture(path) is None


@pytest.mark.parametrize(
    "settings",
    [
        Settings(categories=201, latents=2),
        Settings(categories=3, samples=2, estimator="disarm-tree"),
    ],
)
def test_the_paper_has_nothing_for_settings_that_have_no_default(settings):
    assert printed(settings, "train") is None
