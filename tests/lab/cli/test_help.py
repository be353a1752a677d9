"""What ``--help`` shows, and how little it imports for it."""

import os
import re
import subprocess
import sys

import pytest

from carms.lab.cli.main import COMMANDS, parse

HEAVY = ("torch", "numpy", "matplotlib", "sklearn", "tensorboard", "plotly", "ray", "pooch")
PAGES = [[], *([name] for name in COMMANDS), *(["data", name] for name in ("list", "fetch"))]
PROGRAM = f"""
import sys
from carms.__main__ import main
try:
    main()
except SystemExit:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def page(capsys, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        parse([*arguments, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["vae", "--help"], ["--version"]])
def test_nothing_heavy_is_imported_for_help(arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        # A warning while importing would be a line more.
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.stderr == "[]\n"
    assert "carms" in done.stdout


@pytest.mark.parametrize("arguments", PAGES, ids=" ".join)
def test_help_fits_eighty_columns(capsys, monkeypatch, arguments):
    lines = page(capsys, monkeypatch, arguments).splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80] == []


@pytest.mark.parametrize("columns", [1, 5])
def test_help_ends_in_a_terminal_of_a_few_columns(columns):
    done = subprocess.run(
        [sys.executable, "-m", "carms", "data", "fetch", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    assert 20 < max(map(len, done.stdout.splitlines())) <= 40


@pytest.mark.parametrize("arguments", PAGES, ids=" ".join)
def test_help_has_no_markup(capsys, monkeypatch, arguments):
    text = page(capsys, monkeypatch, arguments)
    assert "`" not in text
    assert "None" not in text
    assert "(default: )" not in text
    # A choice is the only thing in braces.
    assert all("," in found for found in re.findall(r"\{.*?\}", text))


@pytest.mark.parametrize("arguments", PAGES[1:], ids=" ".join)
def test_every_flag_is_explained(capsys, monkeypatch, arguments):
    text = re.sub(r"[│╭╰╮╯─\s]+", " ", page(capsys, monkeypatch, arguments))
    for flag, help_text in re.findall(
        r" (--[a-z-]+) (?:[A-Z]\S*|\{\S+\}) (?:\.\.\. )?(\S+ \S+)", text
    ):
        assert not re.match("(of|by|for|their|per) ", help_text), flag


@pytest.mark.parametrize("arguments", PAGES[1:], ids=" ".join)
def test_help_speaks_of_flags(capsys, monkeypatch, arguments):
    text = re.sub(r"[│\s]+", " ", page(capsys, monkeypatch, arguments))
    assert ". (" not in text
    assert "()" not in text
    assert "log_every" not in text


@pytest.mark.parametrize("name", ["plot", "report"])
def test_directories_are_required(capsys, monkeypatch, name):
    text = re.sub(r"[│\s]+", " ", page(capsys, monkeypatch, [name]))
    assert re.search(r"DIR \.\.\. directories [^(]*\(required\)", text)


def test_overview_lists_every_command(capsys, monkeypatch):
    text = page(capsys, monkeypatch, [])
    for name in COMMANDS:
        assert f"  {name} " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swep"], "unknown command 'swep'; did you mean sweep?"),
        (["x"], "'carms --help' lists"),
        (["compare"], "carms.compare is for Python, and 'carms --help' lists the commands"),
    ],
)
def test_unknown_commands_are_refused(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_no_command_shows_the_overview(capsys):
    with pytest.raises(SystemExit) as ended:
        parse([])
    assert ended.value.code == 2
    assert "usage: carms COMMAND" in capsys.readouterr().out


def test_the_commands_that_train_differ_in_their_task():
    vae, complete = (parse([name, "--out", "run"]).settings for name in ("vae", "complete"))
    assert (vae.task, complete.task) == ("vae", "complete")
    assert (vae.likelihood_samples, complete.likelihood_samples) == (100, 1000)
