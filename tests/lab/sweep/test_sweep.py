"""Grids of runs, here and on a Ray cluster of this machine, and what they survive."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

import pytest
from rich.console import Console

from carms.lab.cli.sweep import _time_left
from carms.lab.runs.progress import standing
from carms.lab.runs.records import last_line
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.sweep import processes
from carms.lab.sweep.cluster import on_ray
from carms.lab.sweep.grid import expand, read_grid, run_name
from carms.lab.sweep.jobs import Job, Outcome, train_run
from carms.lab.train import forecast
from carms.lab.train.training import Trainer

TIMINGS = ("milliseconds", "training_seconds", "evaluation_seconds")
GRID = {
    "dataset": "digits",
    "network": "linear",
    "categories": 3,
    "latents": 4,
    "estimator": ["loorf", "carms-s"],
    "seed": [0, 1],
    "steps": 400,
    "log_every": 50,
    "checkpoint_every": 50,
    "eval_samples": 3,
}
LINE = json.dumps({"step": 60, "objective": -1.5, "milliseconds": 2.5})


def write_grid(path, **changes):
    grid = {**GRID, **changes}
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in grid.items()))
    return path


def command(*arguments):
    return [sys.executable, "-m", "carms", "sweep", *map(str, arguments)]


def sweep(*arguments, check=True):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=check)


def outcomes(folder):
    """Metrics and results of all runs, timings aside."""
    found = {}
    for path in sorted(folder.iterdir()):
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        lines.append(json.loads((path / "result.json").read_text()))
        found[path.name] = [{k: v for k, v in row.items() if k not in TIMINGS} for row in lines]
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the runs of the grid give one after the other in one process."""
    folder = tmp_path_factory.mktemp("expected")
    for settings in expand(GRID):
        Trainer(settings, folder / run_name(settings)).run()
    return outcomes(folder)


def test_the_grids_of_the_paper():
    for name, count in (("paper-vae", 450), ("paper-complete", 225)):
        runs = read_grid(name)
        assert len({run_name(run) for run in runs}) == count
        assert all(run.steps == 10**6 for run in runs)


def test_options_are_lists_by_nature():
    one = expand({"estimator": "carms-i", "options": ["orderings=one", "epsilon=0.1"]})
    assert [run.options for run in one] == [("orderings=one", "epsilon=0.1")]
    two = expand({"estimator": "carms-i", "options": [["orderings=one"], []]})
    assert [run.options for run in two] == [("orderings=one",), ()]


GIGANTIC = "".join(f"{name} = {[*range(2, 1002)]}\n" for name in ("categories", "seed", "batch"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "there is no setting colour"),
        ("seed = []", "a list in it is empty"),
        ("seed = [1, 1]", "the same run twice"),
        ("steps = 0", "steps must be at least 1"),
        ("estimator = 'lorf'", "did you mean loorf"),
        ("options = ['colour=red']", "carms-s has no option colour"),
        ("seed = ", "Invalid value"),
        pytest.param(GIGANTIC, "has 1,000,000,000 runs, more than 10,000", id="many runs"),
        pytest.param("seed = " + "[" * 5000, "nested too deeply", id="deep"),
        pytest.param("seed" + ".a" * 10**5 + " = 1", "more than 16,384 bytes", id="large"),
    ],
)
def test_a_bad_grid_is_one_error(tmp_path, text, message):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_grid(str(path))
    with pytest.raises(ValueError, match="or a TOML file"):
        read_grid("nothing.toml")


def test_plan_run_and_run_again(tmp_path, expected):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    plan = sweep(grid, "--out", out, "--dry-run").stdout
    assert "4 runs under" in plan
    assert "0 finished" in plan
    assert "step 0 of 400" in plan
    assert "on one core in all" in plan
    assert not out.exists()
    assert "all 4 runs are finished" in sweep(grid, "--out", out).stdout
    assert outcomes(out) == expected
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert "4 finished" in sweep(grid, "--out", out).stdout
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    # Of these two, one is for binary variables alone.
    grid = write_grid(tmp_path / "grid.toml", estimator=["arms", "loorf"], seed=0, steps=50)
    done = sweep(grid, "--out", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert "1 of 2 runs failed" in done.stderr
    assert "arms" in done.stdout
    assert "loorf" in done.stdout
    assert len([*(tmp_path / "out").glob("*/result.json")]) == 1


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


def children_of(pid):
    text = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    return [int(word) for word in text.split()]


def wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def checkpoints(out):
    return [*out.glob("*/checkpoints/*.json")]


def test_a_process_killed_under_a_run(tmp_path, expected, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out)
    wait_for(lambda: checkpoints(out))
    # The last of its children; the first may be the one that watches over resources.
    os.kill(max(children_of(driver.pid)), signal.SIGKILL)
    output, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, output + errors
    assert outcomes(out) == expected


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_and_started_again(tmp_path, expected, number, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out)
    wait_for(lambda: checkpoints(out))
    driver.send_signal(number)
    output, errors = driver.communicate(timeout=300)
    if number == signal.SIGINT:
        assert driver.returncode == 130
        assert "the same command goes on" in output
        assert "Traceback" not in errors
    assert "all 4 runs are finished" in sweep(grid, "--out", out).stdout
    assert outcomes(out) == expected


def alive(pid):
    text = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return text.stdout.strip() not in ("", "Z")


def test_processes_end_with_a_driver_that_is_killed_before_they_have_begun(tmp_path, start):
    grid, out = write_grid(tmp_path / "grid.toml"), tmp_path / "out"
    driver = start(grid, "--out", out, "--workers", 2)
    # With the one that watches over resources.
    wait_for(lambda: len(children_of(driver.pid)) == 3)
    workers = children_of(driver.pid)
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(map(alive, workers)), 100)


def test_two_processes_do_not_train_one_run(tmp_path):
    settings = Settings(**{**GRID, "estimator": "loorf", "seed": 0})
    trainer = Trainer(settings, tmp_path / "run")
    with (
        trainer.directory.held(),
        pytest.raises(ValueError, match="another process is training"),
    ):
        Trainer(settings, tmp_path / "run").run()


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


def test_the_last_whole_line_of_metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_line(tmp_path, 1000) == {}
    path.write_text('{"step": 1')
    assert last_line(tmp_path, 1000) == {}
    numbers = {"objective": -1.5, "milliseconds": 2.5}
    lines = [json.dumps({"step": step, **numbers, "filler": "x" * 100}) for step in range(1, 1001)]
    path.write_text("\n".join(lines) + '\n{"step": 1001, "obj')
    assert last_line(tmp_path, 1000) == {"step": 1000, **numbers}
    path.write_text('{"step": 0, "reward": 0.5, "solved": 0}\n')
    assert last_line(tmp_path, 1000) == {}
    assert last_line(tmp_path, 1000, ("reward",)) == {"step": 0, "reward": 0.5}


@pytest.mark.parametrize(
    "last",
    ["[]", '{"step": "x"}', '{"step": 60, "objective": 1e999}', "x" * 5000, "x" * 100_000, "\0"],
    ids=range(6),
)
def test_a_bad_line_of_metrics_does_not_stop_a_sweep(tmp_path, last):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text(f"{LINE}\n{last}\n")
    now = standing(tmp_path, Settings(steps=100))
    assert now.state == "begun"
    # Before 64 kB of something else nothing is looked for.
    assert now.step == (0 if len(last) == 100_000 else 60)


def test_a_directory_that_cannot_be_does_not_stop_a_sweep(tmp_path):
    assert standing(tmp_path / ("x" * 300), Settings()).state == "waiting"


@pytest.mark.parametrize("result", ["", "[]", "{}", '{"step": 100}'], ids=range(4))
def test_what_is_no_result_does_not_count_as_finished(tmp_path, result):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "result.json").write_text(result)
    assert standing(tmp_path, Settings(steps=100)).state == "begun"


class Dying:
    """A pool whose processes all die once the run of seed 0 begins."""

    made = 0

    def __init__(self, *args, **options):
        self.dead = False
        Dying.made += 1
        assert Dying.made < 10, "it never gives up"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def shutdown(self):
        pass

    def submit(self, attempt, work, job):
        future = Future()
        self.dead |= job.settings.seed == 0
        if self.dead:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(None)
        return future


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_kills_its_process_is_given_up_and_no_other_is(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(Dying, "made", 0)
    monkeypatch.setattr(processes, "ProcessPoolExecutor", Dying)
    deadly, good = (Job(Settings(seed=seed), tmp_path / f"{seed}") for seed in range(2))
    # An earlier sweep had begun it already.
    with RunDirectory(good.path, good.settings.to_json()).held():
        pass
    outcomes = {
        one for one in islice(processes.in_processes(train_run, [deadly, good], workers), 50) if one
    }
    assert outcomes == {Outcome(deadly, "its process died 3 times"), Outcome(good, None)}


def test_time_left_is_of_the_steps_that_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr("carms.lab.train.forecast.predicted_seconds", lambda kind: (0.5, 7.0))
    fresh, begun = (Job(Settings(seed=seed, steps=100), tmp_path / f"{seed}") for seed in range(2))
    begun.path.mkdir()
    (begun.path / "config.json").write_text("{}")
    (begun.path / "metrics.jsonl").write_text(f"{LINE}\n")
    assert _time_left(Console(quiet=True), [fresh, begun]) == {fresh: 57.0, begun: 27.0}


def test_an_evaluation_is_predicted_for_all_images_and_samples(monkeypatch):
    monkeypatch.setattr(forecast, "_seconds", lambda work: 1.0)
    settings = Settings(dataset="digits", categories=3, latents=4, eval_samples=40)
    # Of 50 images with 20 samples each it would take a second.
    assert forecast.predicted_seconds(settings) == (0.1, pytest.approx(1597 * 40 / 1000))
