"""The examples run, only shorter."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
CONTESTANTS = "carms-s", "loorf", "gumbel-softmax"


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


def test_conv_vae(tmp_path):
    picture = tmp_path / "digits.png"
    printed = run("conv_vae.py", "--steps", "5", "--seeds", "1", "--out", str(picture))
    assert [printed.count(f"{name}, seed 0: -") for name in CONTESTANTS] == [1, 1, 1]
    assert printed.count(" leads ") == 2
    assert picture.stat().st_size > 0


def test_feature_selection(tmp_path):
    picture = tmp_path / "pixels.png"
    printed = run("feature_selection.py", "--steps", "5", "--seeds", "1", "--out", str(picture))
    assert [printed.count(f"{name}, seed 0: ") for name in CONTESTANTS] == [1, 1, 1]
    assert "leads random" in printed or "random leads" in printed
    assert picture.stat().st_size > 0
