"""The examples run, only shorter."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_shelf():
    command = [sys.executable, EXAMPLES / "shelf.py", "--replicates", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("straight-through") == 2


def test_toy(tmp_path):
    command = [sys.executable, EXAMPLES / "toy.py", "--out", tmp_path, "--problems", "2"]
    done = subprocess.run(
        [*command, "--replicates", "50"], capture_output=True, text=True, check=True
    )
    assert "carms-s" in done.stdout
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
