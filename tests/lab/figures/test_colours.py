"""Colours of estimators."""

import re
import subprocess
import sys

import carms
from carms.lab.figures.colours import colour


def test_every_name_has_a_colour():
    for name in (*carms.available(), "someone's-own"):
        assert re.fullmatch("#[0-9A-Fa-f]{6}", colour(name))


def test_another_process_has_the_same_colours_and_makes_pages_without_matplotlib():
    command = (
        "import sys; sys.modules['matplotlib'] = None; import carms.lab.report.page; "
        "from carms.lab.figures.colours import colour; print(colour('x'), colour('y'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [colour("x"), colour("y")]
