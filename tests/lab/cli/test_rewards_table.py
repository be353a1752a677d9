"""The table of rewards that ``carms rollouts`` prints."""

import io

from carms.lab.cli.console import PlainConsole
from carms.lab.cli.rewards import print_rewards


def test_the_table_can_be_printed_where_only_ascii_can():
    line = {"reward": 0.5, "solved": 0.25, "milliseconds": 2.0}
    run = [{**line, "step": step} for step in (0, 10)]
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_rewards(PlainConsole(file=file, width=100), {"rloo": [run, run]}, "After 10 steps")
    file.seek(0)
    assert "50.0 +- 0.0" in file.read()
