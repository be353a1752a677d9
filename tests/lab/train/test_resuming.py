"""Runs that are stopped, asked or not, and go on as if they had not been."""

import os
import signal
import subprocess
import time

import pytest
import torch
from small_runs import COMMAND, FLAGS, SMALL, outcome, train

from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.signals import InterruptedRunError
from carms.lab.train.training import Trainer


@pytest.mark.parametrize(
    "changes", [{}, {"estimator": "relax"}, {"task": "complete"}], ids=["vae", "relax", "complete"]
)
@pytest.mark.parametrize("when", [7, 20, 33, 59])
def test_a_run_stopped_anywhere_goes_on_as_if_it_had_not(tmp_path, when, changes):
    class StopError(Exception):
        pass

    expected = train(tmp_path / "whole", **changes)
    trainer = Trainer(Settings(**SMALL, **changes), tmp_path / "run")
    update = trainer._update

    def stopping(images):
        if trainer.step == when:
            raise StopError
        return update(images)

    trainer._update = stopping
    with pytest.raises(StopError):
        trainer.run()
    assert train(tmp_path / "run", **changes) == expected


def test_a_closed_terminal_does_not_cost_the_checkpoint_of_the_step(tmp_path):
    def print_step(step, objective):
        if step == SMALL["checkpoint_every"]:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Trainer(Settings(**SMALL), tmp_path / "run").run(on_step=print_step)
    assert Trainer.of_run(tmp_path / "run").step == SMALL["checkpoint_every"]


def test_another_number_of_threads_is_told(tmp_path):
    def stop(step, objective):
        if step == SMALL["checkpoint_every"]:
            raise BrokenPipeError

    threads = torch.get_num_threads()
    with pytest.raises(BrokenPipeError):
        Trainer(Settings(**SMALL), tmp_path / "run").run(on_step=stop)
    torch.set_num_threads(threads + 1)
    try:
        with pytest.warns(UserWarning, match=f"trained with --threads {threads} .* {threads + 1}:"):
            Trainer(Settings(**SMALL), tmp_path / "run").run()
    finally:
        torch.set_num_threads(threads)


def test_killed_without_warning(tmp_path):
    path = tmp_path / "run"
    flags = [*FLAGS, "--steps", "600"]
    metrics, result = None, None
    whole = tmp_path / "whole"
    subprocess.run([*COMMAND, whole, *flags], check=True, capture_output=True)
    expected = outcome(whole)
    kills = 0
    while result is None:
        process = subprocess.Popen(
            [*COMMAND, path, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        seen = path / "checkpoints"
        known = set(seen.iterdir()) if seen.exists() else set()
        while process.poll() is None and time.monotonic() < deadline:
            if kills < 2 and seen.exists() and len(set(seen.iterdir()) - known) > 4:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        code = process.wait()
        assert code in (0, -signal.SIGKILL)
        if code == 0:
            metrics, result = outcome(path)
    assert kills == 2
    assert (metrics, result) == expected


def test_asked_to_stop_it_keeps_a_checkpoint_first(tmp_path):
    path = tmp_path / "run"
    flags = [*FLAGS, "--steps", "1000000", "--checkpoint-every", "1000000"]
    process = subprocess.Popen(
        [*COMMAND, path, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 60
    while not (path / "metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "SIGTERM at step" in output
    assert list((path / "checkpoints").glob("*.safetensors"))


def interrupted(path, number, when):
    """Train until a signal comes in the middle of a step."""
    trainer = Trainer(Settings(**SMALL), path)
    update = trainer._update

    def signalled(images):
        if trainer.step == when - 1:
            os.kill(os.getpid(), number)
        return update(images)

    trainer._update = signalled
    return trainer.run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("when", [7, 60])
def test_a_signal_in_any_step_stops_after_a_checkpoint(finished, tmp_path, number, when):
    path = tmp_path / "run"
    # Whoever runs the tests in the background may have it ignored.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(InterruptedRunError, match=f"{number.name} at step {when};"):
            interrupted(path, number, when)
    finally:
        signal.signal(number, before)
    assert not (path / "result.json").exists()
    assert RunDirectory(path, Settings(**SMALL).to_json()).checkpoint().step == when
    assert train(path) == outcome(finished)


def test_a_signal_that_is_ignored_stays_so(finished, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupted(tmp_path / "run", signal.SIGHUP, 7)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome(tmp_path / "run") == outcome(finished)


def test_signals_are_as_before_after_a_run(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train(tmp_path / "run", steps=1)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_checkpoint_comes_before_whoever_is_told(tmp_path):
    def gone(line):
        if line["step"] == 20:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        Trainer(Settings(**SMALL), tmp_path / "run").run(gone)
    assert Trainer.of_run(tmp_path / "run").step == 20


def test_what_was_trained_before_a_stop_is_in_its_time_and_once_in_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = tmp_path / "run"
    seconds = Trainer(Settings(**SMALL), path).run()["training_seconds"]
    (path / "result.json").unlink()
    assert Trainer(Settings(**SMALL), path).run()["training_seconds"] == seconds
    # As if it had been stopped after step 50.
    (path / "result.json").unlink()
    for kind in ("json", "safetensors"):
        (path / "checkpoints" / f"000000060.{kind}").unlink()
    train(path)
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("objective")] == [10, 20, 30, 40, 50, 60]
