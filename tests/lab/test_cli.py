"""The commands, as a user types them."""

import subprocess
import sys

import pytest


def carms(*arguments, check=True, **environment):
    return subprocess.run(
        [sys.executable, "-m", "carms", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        **environment,
    )


def test_help_suffices():
    commands = carms("--help").stdout
    for name in ("vae", "evaluate", "plot", "toy", "data"):
        assert name in commands
    flags = carms("vae", "--help").stdout
    for flag in ("--dataset", "--estimator", "--options", "--eval-samples", "--precision"):
        assert flag in flags


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
    for name in ("reconstructions", "samples"):
        assert (run / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "at step 30, 7 samples" in carms("evaluate", run, "--samples", 7).stdout


def test_a_run_that_is_not_there(tmp_path):
    for command in ("evaluate", "plot"):
        done = carms(command, tmp_path / "nothing", check=False)
        assert done.returncode == 1
        assert "no run in" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("action", ["list", "verify"])
def test_data(tmp_path, action, monkeypatch):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path))
    name = () if action == "list" else ("dynamic-mnist",)
    done = carms("data", action, *name, check=False)
    assert "missing" in done.stdout
    assert done.returncode == (0 if action == "list" else 1)


def test_data_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("CARMS_DATA", str(tmp_path / "none"))
    done = carms("vae", "--dataset", "dynamic-mnist", "--out", tmp_path / "run", check=False)
    assert done.returncode == 1
    assert "carms data fetch dynamic-mnist" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
