"""A contest of made-up tasks in the place of the real ones."""

import pytest
from small_contest import LOWER, TASK

from carms.lab.cli import contest as command
from carms.lab.cli.sweep import Sweep
from carms.lab.contest import contest, running
from carms.lab.sweep.jobs import Outcome


@pytest.fixture
def made_up_tasks(monkeypatch):
    """The contest has two tasks, one of which nobody runs."""
    tasks = {TASK.name: TASK, LOWER.name: LOWER}
    for module in (command, contest, running):
        monkeypatch.setattr(module, "TASKS", tasks)

    def inline(self):
        def execute(work, jobs):
            for job in jobs:
                yield Outcome(job, work(job.settings, job.path))
                yield None

        return execute

    monkeypatch.setattr(Sweep, "_executor", inline)
