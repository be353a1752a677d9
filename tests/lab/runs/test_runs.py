"""Runs: what they compute, and what they survive."""

import copy
import dataclasses
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small_runs import SMALL, outcome, train

import carms
from carms.lab.data.datasets import load
from carms.lab.figures.curves import draw_curves
from carms.lab.report.blocks import make_blocks
from carms.lab.runs import store
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train import training
from carms.lab.train.evaluation import mean_bound
from carms.lab.train.training import Trainer

COMMAND = [sys.executable, "-m", "carms", "vae", "--out"]
FLAGS = [
    text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))
]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "whole")


def test_a_run_is_a_directory(tmp_path):
    metrics, result = train(tmp_path / "run")
    assert [line["step"] for line in metrics] == [10, 20, 30, 40, 50, 60]
    for name in ("gradient_variance", "contribution_variance"):
        assert all(line[name] > 0 for line in metrics)
    assert [line["step"] for line in metrics if "test_bound" in line] == [20, 40, 60]
    assert result["step"] == 60
    assert json.loads((tmp_path / "run" / "result.json").read_text())["training_seconds"] > 0
    assert -64 * math.log(2) < result["test_log_likelihood"] < 0
    assert result["train_standard_error"] > 0
    names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert names == {f"{step:09d}.{kind}" for step in (40, 60) for kind in ("json", "safetensors")}


def test_a_step_goes_uphill(tmp_path):
    settings = Settings(**SMALL | {"estimator": "exact"})
    run = Trainer(settings, tmp_path / "run")
    before = copy.deepcopy(run.model)
    images = run.one_step()
    logits = before.logits(images)
    elbo = carms.expectation(before.log_weight(images, logits), logits, "exact").mean()
    elbo.backward()
    expected = before.prior + settings.prior_rate * before.prior.grad
    torch.testing.assert_close(run.model.prior, expected)
    for network in ("encoder", "decoder"):
        pairs = zip(
            getattr(run.model, network).parameters(),
            getattr(before, network).parameters(),
            strict=True,
        )
        for after, parameter in pairs:
            # The first step of Adam is as long as the rate, wherever there is a slope.
            steep = parameter.grad.abs() > 1e-4
            assert steep.any()
            expected = settings.rate * parameter.grad.sign()
            torch.testing.assert_close(
                (after - parameter)[steep], expected[steep], rtol=0.01, atol=0
            )


def test_the_same_seed_gives_the_same_run(uninterrupted, tmp_path):
    assert train(tmp_path / "again") == uninterrupted
    assert train(tmp_path / "other", seed=1) != uninterrupted


def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    metrics, _ = train(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("objective")]
    assert [step for step, _ in found] == [line["step"] for line in metrics]
    assert [value for _, value in found] == pytest.approx([line["objective"] for line in metrics])


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


def damage_by_truncation(path):
    os.truncate(path, path.stat().st_size // 2)


def damage_by_one_bit(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [damage_by_truncation, damage_by_one_bit, os.unlink])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(uninterrupted, tmp_path, damage):
    path = tmp_path / "run"
    train(path)
    (path / "result.json").unlink()
    damage(path / "checkpoints" / "000000060.safetensors")
    with pytest.warns(UserWarning, match=r"000000060\.safetensors is damaged .*the one before"):
        assert train(path) == uninterrupted


def test_without_a_good_checkpoint_it_starts_anew(uninterrupted, tmp_path):
    path = tmp_path / "run"
    train(path)
    (path / "result.json").unlink()
    for checkpoint in (path / "checkpoints").glob("*.safetensors"):
        damage_by_one_bit(checkpoint)
    with pytest.warns(UserWarning, match="is damaged"):
        assert train(path) == uninterrupted


def test_damaged_checkpoints_do_not_crowd_out_new_ones(tmp_path):
    path = tmp_path / "run"
    train(path)
    (path / "result.json").unlink()
    for checkpoint in (path / "checkpoints").glob("*.safetensors"):
        damage_by_one_bit(checkpoint)
    directory = RunDirectory(path, Settings(**SMALL).to_json())
    with pytest.warns(UserWarning, match="is damaged") as caught:
        assert directory.resume() is None
    assert [str(one.message)[-11:] for one in caught] == [" one before", "none before"]
    directory.save(20, {"x": torch.ones(1)})
    assert directory.checkpoint().step == 20
    assert len(list((path / "checkpoints").glob("*.damaged"))) == 4


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("contents", ["", "[]"])
def test_a_damaged_file_is_named(tmp_path, name, contents):
    path = tmp_path / "run"
    train(path)
    (path / name).write_text(contents)
    with pytest.raises(ValueError, match=rf"{name} is damaged"):
        train(path)


def test_a_directory_where_nothing_was_trained_is_taken_over(tmp_path):
    with RunDirectory(tmp_path / "run", Settings(**SMALL, estimator="exact").to_json()).held():
        pass
    train(tmp_path / "run", estimator="loorf")
    with pytest.raises(ValueError, match="other settings"):
        train(tmp_path / "run", estimator="carms-s")


def test_another_run_is_refused_by_name(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 1 now"):
        train(tmp_path / "run", seed=1)


def test_a_finished_run_says_so_and_draws_what_is_missing(tmp_path):
    train(tmp_path / "run")
    picture = tmp_path / "run" / "samples.png"
    before = picture.read_bytes()
    picture.unlink()
    done = subprocess.run(
        [*COMMAND, tmp_path / "run", *FLAGS], capture_output=True, text=True, check=True
    )
    assert "is finished" in done.stdout
    assert "test log likelihood" in done.stdout
    assert "drawn again: " in done.stdout
    assert picture.read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which file it is")
@pytest.mark.parametrize("file", ["metrics.jsonl", "checkpoints"])
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch, file):
    path = tmp_path / "run"
    trainer = Trainer(Settings(**SMALL), path)
    real = os.fsync

    def full(descriptor):
        if trainer.step > 30 and file in Path(f"/proc/self/fd/{descriptor}").readlink().parts:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        trainer.run()
    monkeypatch.undo()
    assert RunDirectory(path, Settings(**SMALL).to_json()).resume().step == 20
    assert not list(path.rglob("*.partial"))


def test_nan_stops_with_the_images(tmp_path):
    trainer = Trainer(Settings(**SMALL), tmp_path / "run")
    trainer._update = lambda images: math.nan
    with pytest.raises(FloatingPointError, match=r"nan at step 1, for the images \[\d+, .*\]"):
        trainer.run()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--estimator", "lorf"], "unknown estimator 'lorf'; did you mean loorf"),
        (["--options", "colour=red"], "carms-s has no option colour"),
        (["--options", "epsilon"], "name=value, got 'epsilon'"),
        (["--steps", "0"], "steps must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_one_line_and_change_nothing(tmp_path, flags, message):
    done = subprocess.run(
        [*COMMAND, tmp_path / "run", *FLAGS, *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert message in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_options_reach_the_estimator():
    settings = Settings(estimator="carms-i", options=("orderings=one", "epsilon=0.25"))
    assert repr(settings.make_estimator()).count("orderings='one', epsilon=0.25") == 1


def test_plot(tmp_path):
    for estimator, seed in itertools.product(("loorf", "carms-s"), (0, 1)):
        train(tmp_path / f"{estimator}-{seed}", estimator=estimator, seed=seed)
    runs = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    command = [sys.executable, "-m", "carms", "plot", *runs, "--out", tmp_path / "curves.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "curves.png" in done.stdout
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")


def test_plot_does_not_mix_what_cannot_be_compared(tmp_path):
    train(tmp_path / "runs" / "three")
    train(tmp_path / "runs" / "four", categories=4)
    train(tmp_path / "runs" / "again", seed=1)
    runs, _ = gather([tmp_path / "runs"])
    blocks = make_blocks(runs)
    assert [[len(group) for group in block.groups] for block in blocks] == [[2], [1]]
    written = draw_curves(blocks, tmp_path / "curves.v1")
    assert [path.name for path in written] == ["curves.v1.png", "curves.v1.svg"]
    assert written[1].read_text().count("4 categories") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "nonliner"}, "network is one of linear, nonlinear; got 'nonliner'"),
        ({"task": "foo"}, "task is one of vae, complete; got 'foo'"),
        ({"steps": "2"}, "steps must be int, got '2'"),
        ({"upright": 1}, "upright must be bool, got 1"),
        ({"options": ("a", 2)}, "options must be tuple, got"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"categories": 1}, "categories must be at least 2, got 1"),
        ({"categories": 300, "latents": None}, "latents must be given for 300 categories"),
        ({"rate": -1.0}, "rate must be finite and not negative, got -1"),
        ({"seed": 2**31}, r"seed must be below 2\^31"),
        ({"eval_every": 15}, "eval_every must be a multiple of log_every, which is 10, got 15"),
    ],
    ids=range(11),
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        Settings(**SMALL | changes)


def test_settings_of_something_else():
    with pytest.raises(ValueError, match="not the settings of a run: there is method"):
        Settings.from_json({"method": "rloo", "seed": 1})


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    monkeypatch.setattr(
        store.os, "fsync", lambda file: seen.append((os.fstat(file).st_ino, path.exists()))
    )
    store.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert seen == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OSError, match=f"cannot write {path}: No space left on device"):
        store.write_atomically(path, b"new")
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(path, b"old")]


def test_metrics_are_on_disk_before_a_checkpoint_counts_them(tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path / "run", {})
    metrics, seen = tmp_path / "run" / "metrics.jsonl", []
    with directory.held():
        directory.log({"step": 1})
        monkeypatch.setattr(store.os, "fsync", lambda file: seen.append(os.fstat(file).st_ino))
        directory.save(1, {"stream": torch.zeros(1)})
    assert seen[0] == metrics.stat().st_ino
    assert directory.checkpoint().metrics_size == metrics.stat().st_size


def test_a_run_is_opened_as_it_was_at_a_step(tmp_path):
    path, kept = tmp_path / "run", {}
    trainer = Trainer(Settings(**SMALL), path)
    trainer.run(lambda line: kept.update({line["step"]: copy.deepcopy(trainer.model)}))
    for asked, step in ((40, 40), (60, 60), (None, 60)):
        opened = Trainer.of_run(path, step=asked)
        assert opened.step == step
        for one, other in zip(opened.model.parameters(), kept[step].parameters(), strict=True):
            assert torch.equal(one, other)


def test_a_line_is_of_the_steps_since_the_last_one(tmp_path):
    trainer = Trainer(Settings(**SMALL | {"steps": 25}), tmp_path / "run")
    values, update = [], trainer._update

    def noting(images):
        values.append(update(images))
        return values[-1]

    def check_bound(line):
        if "test_bound" in line:
            expected = mean_bound(trainer.model, trainer.data.test, 10, line["step"])[0]
            assert line["test_bound"] == expected

    trainer._update = noting
    trainer.run(check_bound)
    own = values[:10], values[10:20], values[20:]
    lines = trainer.directory.metrics
    assert [line["objective"] for line in lines] == pytest.approx([*map(statistics.fmean, own)])
    assert [line["step"] for line in lines if "test_bound" in line] == [20]


def test_an_epoch_has_every_image_once_in_an_order_of_its_own(tmp_path):
    trainer = Trainer(Settings(**SMALL), tmp_path / "run")
    steps = len(trainer.train) // 50
    orders = [
        torch.cat([trainer.batches.at(epoch * steps + step) for step in range(steps)])
        for epoch in range(2)
    ]
    for order in orders:
        assert len(order.unique()) == len(order) == steps * 50
    assert not torch.equal(*orders)


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


def test_signals_are_as_before_after_a_run(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train(tmp_path / "run", steps=1)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_half_precision_reaches_the_networks(tmp_path):
    for precision in ("float32", "bfloat16"):
        trainer = Trainer(Settings(**SMALL, precision=precision), tmp_path / precision)
        seen = []
        trainer.model.decoder[-1].register_forward_hook(
            lambda *args, seen=seen: seen.append(args[-1].dtype)
        )
        trainer.one_step()
        assert set(seen) == {getattr(torch, precision)}
        assert all(p.dtype == torch.float32 for p in trainer.model.parameters())


def test_the_curve_is_of_images_from_everywhere(tmp_path, monkeypatch):
    # Some sets are sorted: the first thousand images of a test set may all show the same digit.
    seen = []
    monkeypatch.setattr(
        training, "mean_bound", lambda model, images, *rest: (seen.append(images) or 0.0, 0.0)
    )
    data = load("digits")
    many = data.test.repeat_interleave(30, 0)
    trainer = Trainer(
        Settings(**SMALL), tmp_path / "run", data=dataclasses.replace(data, test=many)
    )
    trainer.step = 20
    trainer._test_bound()
    (images,) = seen
    assert len(images) == 1000
    assert len(images.unique(dim=0)) > 0.6 * len(data.test.unique(dim=0))


def test_what_goes_without_saying():
    assert [Settings(task=task).likelihood_samples for task in ("vae", "complete")] == [100, 1000]
    assert Settings(eval_samples=7).likelihood_samples == 7
    for estimator, samples in (("arsm", 1), ("loorf", 9), ("unord", 7)):
        assert Settings(estimator=estimator, categories=9).make_estimator().samples == samples


def test_checkpoints_without_metrics_are_a_run_too(tmp_path):
    directory = RunDirectory(tmp_path / "run", {"seed": 0})
    with directory.held():
        directory.save(1, {"x": torch.ones(1)})
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 1 now"):
        RunDirectory(tmp_path / "run", {"seed": 1})


def test_a_damaged_checkpoint_does_not_crowd_out_good_ones(tmp_path):
    directory = RunDirectory(tmp_path / "run", {})
    with directory.held():
        for step in (1, 9):
            directory.save(step, {"x": torch.ones(1)})
        damage_by_one_bit(tmp_path / "run" / "checkpoints" / "000000009.safetensors")
        with pytest.warns(UserWarning, match="using the one before"):
            assert directory.resume().step == 1
        for step in (2, 3):
            directory.save(step, {"x": torch.ones(1)})
    assert directory.checkpoint().step == 3
    assert directory.checkpoint(2).step == 2


def test_a_name_that_is_taken_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        store.write_atomically(tmp_path / "file", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
