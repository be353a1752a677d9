"""Sweeps whose results are known, and sweeps in the background."""

import signal
import subprocess

import pytest
from small_grids import GRID, command, outcomes

from carms.lab.sweep.grid import expand, run_name
from carms.lab.train.training import Trainer


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the runs of the grid give one after the other in one process."""
    folder = tmp_path_factory.mktemp("expected")
    for settings in expand(GRID):
        Trainer(settings, folder / run_name(settings)).run()
    return outcomes(folder)


@pytest.fixture
def start():
    """Start a sweep in the background; nothing of it is left behind."""
    started = []

    def begin(*arguments):
        process = subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests that run in the background are deaf to interrupts, and would pass that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
