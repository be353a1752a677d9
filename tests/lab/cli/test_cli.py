"""The commands, as a user types them."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from carms import __main__ as package
from carms.lab.cli.main import main, parse
from carms.lab.cli.toy import Toy
from carms.lab.report.paper import printed
from carms.lab.runs.settings import Settings


def carms(*arguments, check=True, **environment):
    return subprocess.run(
        [sys.executable, "-m", "carms", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        **environment,
    )


def test_version():
    assert carms("--version").stdout == f"carms {version('carms')}, torch {version('torch')}\n"


def test_a_reader_who_has_seen_enough():
    shown, hidden = os.pipe()
    os.close(shown)
    command = [sys.executable, "-m", "carms", "--help"]
    ended = subprocess.run(command, stdout=hidden, stderr=subprocess.PIPE, check=False)
    os.close(hidden)
    assert ended.returncode == 1
    assert ended.stderr == b""


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.argv = ['carms', 'toy']; from carms.__main__ import main; main()",
        "import carms.estimators",
    ],
)
def test_an_interrupt_while_importing(tmp_path, program):
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt")
    source = Path(package.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, source)))},
        capture_output=True,
        text=True,
        check=False,
    )
    # Only the command is quiet: whoever imports the library wants to know.
    quiet = "main" in program
    assert ended.returncode == (130 if quiet else -signal.SIGINT)
    assert ("KeyboardInterrupt" in ended.stderr) != quiet


def test_a_package_that_is_not_installed_is_one_line(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ModuleNotFoundError('no sklearn')")
    source = Path(package.__file__).parents[1]
    path = os.pathsep.join(map(str, (tmp_path, source)))
    flags = ("--dataset", "digits", "--out", tmp_path / "run")
    done = carms("vae", *flags, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("carms: sklearn cannot be imported: pip install 'carms[lab]'")


def test_toy(tmp_path):
    done = carms(
        *("toy", "--problems", 2, "--replicates", 50, "--out", tmp_path / "toy.png"),
        *("--estimators", "loorf", "carms-s"),
    )
    assert "carms-s" in done.stdout
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_train_evaluate_and_draw(tmp_path):
    run = tmp_path / "run"
    flags = ("--dataset", "digits", "--categories", 4, "--steps", 30, "--log-every", 10)
    done = carms("vae", *flags, "--eval-samples", 5, "--precision", "bfloat16", "--out", run)
    assert "test log likelihood" in done.stdout
    assert re.search(r"training took \d+(\.\d)? seconds, evaluation ", done.stdout)
    for name in ("reconstructions", "samples"):
        assert (run / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "at step 30, 7 samples" in carms("evaluate", run, "--samples", 7).stdout
    repetitions = ("--repetitions", 20, "--images", 3)
    done = carms("variance", run, *repetitions, "--estimators", "loorf", "arsm")
    assert "at step 30" in done.stdout
    found = json.loads((run / "variance-30.json").read_text())["found"]
    # One draw of arsm is what a run has, and worth as many evaluations as several samples.
    assert [(one["estimator"], one["samples"]) for one in found] == [("loorf", 4), ("arsm", 1)]
    done = carms("variance", run, "--step", 7, check=False)
    assert "no checkpoint of step 7; it has 30" in done.stderr
    assert done.returncode == 1


def test_complete(tmp_path):
    run = tmp_path / "run"
    flags = ("--dataset", "digits", "--categories", 4, "--steps", 30, "--log-every", 10)
    done = carms("complete", *flags, "--eval-samples", 5, "--out", run)
    assert "test log likelihood" in done.stdout
    assert (run / "completions.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((run / "config.json").read_text())["task"] == "complete"
    other = carms("vae", *flags, "--eval-samples", 5, "--out", run, check=False)
    assert "task: 'complete' there, 'vae' now" in other.stderr
    assert "take another directory, or the settings that it has" in other.stderr


def test_correlations(tmp_path):
    done = carms("correlations", "--probs", 1, 2, 3, "--out", tmp_path / "correlations.png")
    assert "Gumbel-max, Dirichlet" in done.stdout
    assert (tmp_path / "correlations.png").read_bytes().startswith(b"\x89PNG")
    bad = carms("correlations", "--probs", 1, 0, check=False)
    assert "at least two positive numbers" in bad.stderr


def test_the_tables_of_the_paper():
    def cell(part, **changes):
        return printed(Settings(**{"categories": 3, "estimator": "loorf", **changes}), part)

    assert cell("test", network="linear").mean == -105.17
    assert cell("train", task="complete").mean == -58.19
    assert cell("test", network="linear", latents=7) is None
    assert cell("test", network="linear", samples=2) is None
    assert cell("test", estimator="carms-i", options=("orderings=largest-first",)) is None
    assert cell("test", dataset="digits") is None
    assert cell("test", estimator="unord", categories=10, samples=10) is None
    assert cell("test", estimator="unord", categories=10) is not None
    assert cell("test", dataset="omniglot", task="complete") is None
    assert cell("test", dataset="omniglot", task="complete", upright=False) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vae", "--threads", 0), "threads must be at least 1, got 0"),
        (("vae", "--device", "foo"), "device 'foo' cannot be used here"),
        (("evaluate", "--samples", -5), "samples must be at least 1, got -5"),
        (("vae", "--threads", 100_000), "threads must be at most 1,024, got 100,000"),
        (("vae", "--threads", 10**11), "threads must be at most 1,024, got 100,000,000,000"),
    ],
    ids=range(5),
)
def test_bad_numbers(tmp_path, arguments, message):
    command, *flags = arguments
    out = ("--out", tmp_path / "run")
    if command == "vae":
        out += ("--dataset", "digits")
    elif command == "evaluate":
        out = (tmp_path / "run",)
    done = carms(command, *flags, *out, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there(tmp_path):
    for command in ("evaluate", "plot"):
        done = carms(command, tmp_path / "nothing", check=False)
        assert done.returncode == 1
        assert re.search("no run (in|was found)", done.stderr)
        assert done.stderr.count("nothing") == 1
        assert "Errno" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PermissionError(13, "Permission denied", "a file"), "Permission denied: a file"),
        (OSError(28, "cannot write a file: No space left"), "cannot write a file: No space left"),
        (OSError("something else"), "something else"),
    ],
)
def test_an_error_of_the_system_has_words_and_no_number(monkeypatch, capsys, error, text):
    def fail(self, console):
        raise error

    monkeypatch.setattr(Toy, "run", fail)
    monkeypatch.setattr(sys, "argv", ["carms", "toy"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == f"carms: {text}\n"


def test_plot_without_a_directory_asks_for_one():
    done = carms("plot", check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == "carms: no directory is given: give run directories, or directories of them\n"
    )


def test_a_name_that_the_output_cannot_encode_is_escaped(tmp_path):
    out = tmp_path / "\xe4.png"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = carms("correlations", "--probs", 1, 2, "--out", out, env=ascii_only)
    assert done.stdout.splitlines()[-1].endswith("xe4.svg")
    assert out.exists()
    done = carms("evaluate", tmp_path / "\xe4", check=False, env=ascii_only)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("action", ["list", "verify"])
def test_data(tmp_path, action, monkeypatch):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path))
    name = () if action == "list" else ("dynamic-mnist",)
    done = carms("data", action, *name, check=False)
    assert "missing" in done.stdout
    assert done.returncode == (0 if action == "list" else 1)


@pytest.mark.parametrize("action", ["fetch", "verify"])
def test_a_set_without_files_is_found(action):
    done = carms("data", action, "digits")
    assert done.stdout == "good: digits comes with scikit-learn, 1,797 images\n"


def test_data_of_an_unknown_user(monkeypatch):
    monkeypatch.setenv("CARMS_DATA", "~nosuchuser/x")
    done = carms("data", "list", check=False)
    assert done.returncode == 1
    assert done.stderr == "carms: CARMS_DATA is '~nosuchuser/x', but there is no such user\n"


@pytest.mark.parametrize("flags", [("--out", ""), ("--out=",), ("--device", "", "--out", "run")])
def test_an_empty_value_is_refused(flags):
    with pytest.raises(ValueError, match=r"(the value after --.* is empty|--out= has no value)"):
        parse(["vae", "--dataset", "digits", *flags])


def test_data_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path / "a\nb"))
    done = carms("vae", "--dataset", "dynamic-mnist", "--out", tmp_path / "run", check=False)
    assert done.returncode == 1
    first, looked, *_, last = done.stderr.splitlines()
    assert first == "carms: dynamic-mnist is not here. Looked for"
    assert looked.startswith(rf"  {tmp_path}/a\nb/mnist/")
    assert "carms data fetch dynamic-mnist" in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
