"""The examples run, only shorter."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_shelf():
    command = [sys.executable, EXAMPLES / "shelf.py", "--replicates", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("straight-through") == 2
