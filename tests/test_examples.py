"""The examples run, only shorter."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*command: str) -> str:
    command = [sys.executable, EXAMPLES / command[0], *command[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_shelf():
    assert run("shelf.py", "--replicates", "4").count("straight-through") == 2


@pytest.mark.parametrize("copula", ["circular", "independent"])
def test_rollouts(copula):
    printed = run("rollouts.py", "--steps", "12", "--copula", copula)
    assert printed.count("of the digits right") == 6


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is a dependency of this example alone")
def test_trl_advantages():
    assert "mean reward" in run("trl_advantages.py", "--steps", "2")
