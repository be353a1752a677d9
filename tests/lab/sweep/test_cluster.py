"""Sweeps on a Ray cluster of this machine."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from rich.console import Console
from small_grids import checkpoints, outcomes, sweep, wait_for, write_grid

from carms.lab.cli.sweep import Sweep
from carms.lab.contest.results import read_results
from carms.lab.contest.tasks import TASKS
from carms.lab.sweep.cluster import on_ray
from carms.lab.sweep.jobs import train_run


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes of one CPU each, which listen on loopback only."""
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Its workers are nice by default, and hardly get on beside other tests.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    small = {
        "num_cpus": 1,
        "object_store_memory": 80 * 2**20,
        "include_dashboard": False,
        "node_ip_address": "127.0.0.1",
    }
    made = utils.Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0})
    small.pop("include_dashboard")
    nodes = [made.add_node(**small) for _ in range(2)]
    made.wait_for_nodes()
    yield made, nodes
    made.shutdown()


def test_ray_gives_the_same(tmp_path, expected, cluster):
    made, _ = cluster
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    done = sweep(grid, "--out", out, "--ray", made.address)
    assert "all 4 runs are finished" in done.stdout
    assert outcomes(out) == expected


def test_runs_of_the_contest_share_a_file(tmp_path, cluster):
    """Each of two nodes trains a run, and both write into the file of the task."""
    made, _ = cluster
    path = tmp_path / "routing.csv"
    done = subprocess.run(
        [sys.executable, "-c", TWO_RUNS, made.address, path],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout == "None\nNone\n", done.stderr
    found = read_results(path, TASKS["routing"])
    assert sorted(run.rate for run in found) == [0.003, 0.01]
    assert all(result.scores[-1] < result.scores[0] for result in found.values())


TWO_RUNS = """
import sys
from functools import partial
from pathlib import Path
from carms.lab.contest.results import Run
from carms.lab.contest.running import work
from carms.lab.sweep.cluster import on_ray
from carms.lab.sweep.jobs import Job
address, path = sys.argv[1], Path(sys.argv[2])
jobs = [Job(Run("final", "straight-through", rate, 0), path) for rate in (0.003, 0.01)]
for outcome in on_ray(partial(work, "routing"), jobs, address):
    if outcome:
        print(outcome.error)
"""


def workers_of(nodes):
    raylets = [info.process.pid for node in nodes for info in node.all_processes["raylet"]]
    command = ["pgrep", "--parent", ",".join(map(str, raylets)), "-f", "^ray::attempt"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(word) for word in text.split()]


def test_ray_with_a_worker_a_node_and_the_driver_killed(tmp_path, expected, cluster, start):
    made, nodes = cluster
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    arguments = grid, "--out", out, "--ray", made.address
    driver = start(*arguments)
    wait_for(lambda: checkpoints(out))
    wait_for(lambda: workers_of(nodes))
    os.kill(workers_of(nodes)[0], signal.SIGKILL)
    count = len(checkpoints(out))
    wait_for(lambda: len(checkpoints(out)) > count or [*out.glob("*/result.json")])
    driver.kill()
    driver.communicate()
    driver = start(*arguments)
    wait_for(lambda: workers_of(nodes))
    made.remove_node(nodes[0], allow_graceful=False)
    output, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, output + errors
    assert outcomes(out) == expected


@pytest.fixture
def deaf():
    """An address at which somebody listens and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_no_cluster_there(monkeypatch, deaf):
    pytest.importorskip("ray", reason="Ray is not installed")
    # Seconds, of which the default is 30.
    monkeypatch.setenv("RAY_py_gcs_connect_timeout_s", "3")
    for address in ("127.0.0.1:1", deaf):
        tried = subprocess.run(
            [sys.executable, "-c", TRY_RAY, address], capture_output=True, text=True, timeout=100
        )
        assert tried.stdout.startswith(f"there is no Ray cluster at '{address}'"), tried.stderr


TRY_RAY = """
import sys
from carms.lab.sweep.cluster import on_ray
try:
    list(on_ray(print, [], sys.argv[1]))
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("address", ["local", "", "6379", "127.0.0.1:", ":1", "a:b", "nowhere"])
def test_what_is_no_address_of_a_cluster_is_refused(address):
    with pytest.raises(ValueError, match="--ray takes HOST:PORT") as caught:
        next(on_ray(train_run, [], address))
    assert repr(address) in str(caught.value)
    # A dry run does not use the cluster, and refuses it too.
    with pytest.raises(ValueError, match="--ray takes HOST:PORT"):
        Sweep("short-vae", dry_run=True, ray=address).run(Console(quiet=True))


def test_workers_of_a_cluster_are_refused():
    with pytest.raises(ValueError, match="--workers or --ray, not both"):
        Sweep("short-vae", dry_run=True, ray="auto", workers=2).run(Console(quiet=True))
