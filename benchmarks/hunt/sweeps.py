"""Processes of a sweep are killed, here and on a Ray cluster of this machine.

These are commands as a user types them, in interpreters of their own.
"""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hunt.attempts import Attempt, Lab
from hunt.children import Ended, alive, fork, run
from hunt.runs import SETTINGS

__all__ = ["driver_killed", "ray_killed", "worker_killed"]

GRID = {
    **SETTINGS,
    "steps": 600,
    "log_every": 50,
    "eval_every": 0,
    "checkpoint_every": 50,
    "seed": [0, 1, 2, 3],
}
TIMINGS = ("milliseconds", "training_seconds", "evaluation_seconds")
# Seconds for a sweep, and for processes to notice that their driver is gone.
PATIENCE, FAREWELL = 180.0, 30.0


def worker_killed(lab: Lab) -> Iterator[Attempt]:
    """SIGKILL to a worker of a sweep; the others and the driver go on."""
    expected = _expected(lab)
    for number in range(6):
        yield partial(_kill_worker, expected, number)


def driver_killed(lab: Lab) -> Iterator[Attempt]:
    """SIGKILL to the driver of a sweep: its workers end, and the same command goes on."""
    expected = _expected(lab)
    for number in range(6):
        yield partial(_kill_driver, expected, number)


def ray_killed(lab: Lab) -> Iterator[Attempt]:
    """SIGKILL to a worker, to the driver and to a node of a sweep on a Ray cluster."""
    if importlib.util.find_spec("ray") is None:
        return
    expected = _expected(lab)
    for _ in range(2):
        for victim in ("worker", "driver", "node"):
            yield partial(_apart, partial(_kill_on_ray, expected, victim))


def _expected(lab: Lab) -> Path:
    """The runs of the grid, with nothing in their way."""
    path = lab.other.path.with_name("sweep")
    if not path.exists():
        ended = run(_words(path.parent, path), path.parent)
        if ended.status != 0:
            raise RuntimeError(f"carms sweep: {ended}")
    return path


def _words(folder: Path, out: Path) -> list[str]:
    grid = folder / "grid.toml"
    grid.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in GRID.items()))
    return ["sweep", str(grid), "--out", str(out)]


class _Sweep:
    """A sweep that runs, in a group of processes of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.out = folder / "runs"
        self._logs = [folder / "output", folder / "errors"]
        with self._logs[0].open("w") as output, self._logs[1].open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "carms", *_words(folder, self.out), *words],
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )

    def __enter__(self) -> "_Sweep":
        return self

    def __exit__(self, *error: object) -> None:
        for pid in alive(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """Its processes that train or will."""

        def words(pid: int) -> bytes:
            try:
                return Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                return b""

        return [pid for pid in alive(self.process.pid) if b"spawn_main" in words(pid)]

    def begun(self) -> bool:
        """Whether there is a checkpoint, or nothing left that could make one."""
        return any(self.out.glob("*/checkpoints/*.json")) or self.process.poll() is not None

    def wait(self) -> Ended:
        try:
            status: int | None = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        return Ended(status, *(path.read_text() for path in self._logs))


def _kill_worker(expected: Path, number: int, folder: Path) -> str | None:
    chance = random.Random(f"worker {number}")
    with _Sweep(folder, "--workers", "2") as sweep:
        _until(sweep.begun)
        time.sleep(chance.random())
        workers = sweep.workers()
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
        return _lost(expected, sweep)


def _kill_driver(expected: Path, number: int, folder: Path) -> str | None:
    with _Sweep(folder, "--workers", "2") as sweep:
        # Half of them while workers are still importing, half of them while they train.
        _until(sweep.begun if number % 2 else lambda: bool(sweep.workers()))
        time.sleep(random.Random(f"driver {number}").random())
        sweep.process.kill()
        if not _until(lambda: not sweep.workers(), FAREWELL):
            return f"workers outlive their driver by {FAREWELL:g} seconds"
    with _Sweep(folder, "--workers", "2") as sweep:
        return _lost(expected, sweep)


def _kill_on_ray(expected: Path, victim: str, folder: Path) -> str | None:
    with _cluster() as (cluster, nodes):
        with _Sweep(folder, "--ray", cluster.address) as sweep:
            _until(sweep.begun)
            if victim == "worker":
                for pid in _tasks(nodes)[:1]:
                    os.kill(pid, signal.SIGKILL)
            elif victim == "node":
                cluster.remove_node(nodes[0], allow_graceful=False)
            if victim != "driver":
                lost = _lost(expected, sweep)
                return lost and f"{victim}: {lost}"
        with _Sweep(folder, "--ray", cluster.address) as sweep:
            lost = _lost(expected, sweep)
            return lost and f"{victim}: {lost}"


@contextmanager
def _cluster() -> Iterator[tuple[Any, list[Any]]]:
    """Two nodes of one CPU each, on loopback."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
    head = {**small, "num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [made.add_node(**small) for _ in range(2)]
        made.wait_for_nodes()
        yield made, nodes
    finally:
        made.shutdown()


def _tasks(nodes: list[Any]) -> list[int]:
    """The processes of nodes in which something runs."""
    raylets = [info.process.pid for node in nodes for info in node.all_processes["raylet"]]
    command = ["pgrep", "--parent", ",".join(map(str, raylets)), "-f", "^ray::work"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(word) for word in text.split()]


def _apart(attempt: Attempt, folder: Path) -> str | None:
    """Make an attempt in a process of its own: Ray starts threads, and no fork is safe after."""
    answers = fork.SimpleQueue()
    process = fork.Process(target=lambda: answers.put(attempt(folder)))
    process.start()
    process.join()
    return "the attempt failed" if answers.empty() else answers.get()


def _until(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait for something; whether it came."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _lost(expected: Path, sweep: _Sweep) -> str | None:
    """Why a sweep does not end with the runs that are expected; None if it does."""
    ended, out = sweep.wait(), sweep.out
    if ended.status != 0 or not ended.quiet:
        return str(ended)
    wrong = [path.name for path in expected.iterdir() if _rows(path) != _rows(out / path.name)]
    return f"different: {', '.join(wrong)}" if wrong else None


def _rows(run: Path) -> object:
    """Metrics and result of a run, timings aside, and its pictures."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        rows = map(json.loads, [*lines, (run / "result.json").read_text()])
        told = [{k: v for k, v in row.items() if k not in TIMINGS} for row in rows]
    except OSError:
        return None
    return told, {path.name: path.read_bytes() for path in run.glob("*.png")}
