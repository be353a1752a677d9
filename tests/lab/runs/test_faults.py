"""Runs under faults: damaged, missing, unreadable and linked files, signals, a second process."""

import dataclasses
import errno
import json
import os
import shutil
import signal

import pytest
import torch
from rich.console import Console
from small_runs import SMALL, outcome, train

from carms.lab.cli.train import Vae
from carms.lab.data.datasets import load
from carms.lab.report.blocks import make_blocks
from carms.lab.report.pictures import embed_pictures
from carms.lab.runs import store
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.runs.sums import sha256
from carms.lab.train.training import InterruptedRunError, Trainer


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    train(path)
    return path


@pytest.fixture
def run(finished, tmp_path):
    """A directory that lacks nothing but its result."""
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    return tmp_path / "run"


def contents(path):
    """Every file, and every link as a link."""
    return {
        one.relative_to(path): one.readlink() if one.is_symlink() else one.read_bytes()
        for one in path.rglob("*")
        if one.is_symlink() or one.is_file()
    }


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def test_a_second_command_on_a_running_directory_changes_nothing(tmp_path):
    path = tmp_path / "run"
    with Trainer(Settings(**SMALL), path).directory.held():
        before = contents(path)
        for seed in (0, 1):
            with pytest.raises(ValueError, match=rf"is training .*process {os.getpid()} on "):
                Trainer(Settings(**SMALL, seed=seed), path).run()
        assert contents(path) == before
        assert json.loads((path / "config.json").read_text())["seed"] == 0


def test_nothing_is_written_before_a_run_begins(tmp_path):
    Trainer(Settings(**SMALL), tmp_path / "run").one_step()
    assert not list(tmp_path.iterdir())


def test_checkpoints_say_whose_they_are(finished, run):
    (run / "config.json").unlink()
    before = contents(run)
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 1 now"):
        train(run, seed=1)
    assert contents(run) == before
    assert train(run) == outcome(finished)
    assert json.loads((run / "config.json").read_text()) == Settings(**SMALL).to_json()


@pytest.mark.parametrize("kept", ["metrics.jsonl", "result.json"])
def test_what_belongs_to_nobody_is_nobodys(finished, tmp_path, kept):
    path = tmp_path / "run"
    path.mkdir()
    shutil.copy(finished / kept, path)
    with pytest.raises(ValueError, match=r"a run without its config\.json"):
        train(path)
    assert [one.name for one in path.iterdir()] == [kept]


def test_settings_are_those_of_the_checkpoint(run):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"seed": 5}))
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 5 now"):
        Trainer.of_run(run)


CONFIG = {"seed": 3, "rate": 1e-4, "latents": None}


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny"
    directory = RunDirectory(path, CONFIG)
    with directory.held():
        for step in (1, 2):
            directory.log({"step": step, "objective": -1.5 * step})
            directory.save(step, {"x": torch.full((2,), float(step))})
        directory.finish({"test_log_likelihood": -3.25})
    return path


def read_back(path):
    """The checkpoint and the result of a directory; an error if one of them is damaged."""
    directory = RunDirectory(path, CONFIG)
    found = directory.checkpoint()
    if not found.fits((path / "metrics.jsonl").read_bytes()):
        raise ValueError("metrics are damaged")
    return found.step, found.tensors["x"].tolist(), directory.result


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "metrics.jsonl",
        "result.json",
        "SHA256SUMS",
        "checkpoints/000000002.json",
        "checkpoints/000000002.safetensors",
    ],
)
@pytest.mark.filterwarnings("ignore:checkpoint .* is damaged")
def test_no_flipped_bit_changes_what_is_read(tiny, name):
    good = [(step, [step, step], {"test_log_likelihood": -3.25}) for step in (1, 2)]
    assert read_back(tiny) == good[1]
    data, noticed = (tiny / name).read_bytes(), 0
    # About one bit of each byte, and in turn the first to the last of them.
    places = range(0, 8 * len(data), 7)
    for place in places:
        flip(tiny / name, place)
        try:
            found = read_back(tiny)
        except ValueError:
            noticed += 1
        else:
            assert found in good
            noticed += found == good[0]
        (tiny / name).write_bytes(data)
    # The others changed white space, or the checksums of files that are not read here.
    assert noticed > len(places) / 4


def truncate(path):
    os.truncate(path, path.stat().st_size - 30)


@pytest.mark.parametrize(
    "damage", [truncate, lambda path: flip(path, 8 * path.stat().st_size - 99)]
)
def test_lines_after_the_checkpoint_before_are_made_again(finished, run, damage):
    damage(run / "metrics.jsonl")
    with pytest.warns(UserWarning, match=r"lost what it had at step 60; going on from step 40"):
        assert train(run) == outcome(finished)


@pytest.mark.parametrize(
    "damage", [lambda path: flip(path, 99), lambda path: os.truncate(path, 0), os.unlink]
)
def test_lines_that_are_lost_stop_the_run(run, damage):
    damage(run / "metrics.jsonl")
    before = contents(run)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: .* at step 40; put it back"):
        train(run)
    assert contents(run) == before


def test_a_checkpoint_of_another_step_is_damaged(run):
    for kind in ("json", "safetensors"):
        path = run / "checkpoints" / f"000000040.{kind}"
        shutil.copy(path, path.with_name(f"000000060.{kind}"))
    with pytest.warns(UserWarning, match=r"it says step 40, .*: using the one before"):
        assert Trainer.of_run(run).step == 40


def test_checkpoints_of_the_version_before(finished, run):
    for path in (run / "checkpoints").glob("*.json"):
        manifest = json.loads(path.read_text())
        tensors = path.with_suffix(".safetensors").read_bytes()
        old = {name: manifest[name] for name in ("step", "metrics_size")}
        path.write_text(json.dumps(old | {"sha256": sha256(tensors)}))
    assert train(run) == outcome(finished)


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(5, "Input/output error")])
@pytest.mark.parametrize(
    "name", ["config.json", "metrics.jsonl", "000000060.json", "000000060.safetensors"]
)
def test_what_cannot_be_read_stops_the_run_and_is_left_alone(run, monkeypatch, name, error):
    read, before = store.read_bounded, contents(run)

    def failing(path, limit):
        if path.name == name:
            raise error
        return read(path, limit)

    monkeypatch.setattr(store, "read_bounded", failing)
    with pytest.raises(OSError, match=f"cannot read .*{name}: {error.strerror}"):
        train(run)
    assert contents(run) == before


def test_checkpoints_that_cannot_be_listed_stop_the_run(run, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(store.os, "listdir", denied)
    with pytest.raises(PermissionError, match="checkpoints"):
        train(run)


def test_a_result_without_its_numbers_is_damaged(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"result\.json is damaged: its checksum is not the one in SHA256SUMS"
    ):
        train(tmp_path / "run")


def test_a_result_of_something_else_is_named(finished, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "SHA256SUMS").unlink()
    (path / "result.json").write_text('{"train_log_likelihood": "low"}')
    with pytest.raises(ValueError, match=r"result\.json is damaged: it has no numbers train_log"):
        Vae(Settings(**SMALL), path).run(Console(quiet=True))


def without(name):
    return lambda tensors: {one: value for one, value in tensors.items() if one != name}


def replaced(name, value):
    return lambda tensors: tensors | {name: value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("model.prior"), "model.prior is missing"),
        (without("stream"), "stream is missing"),
        (replaced("model.priors", torch.zeros(4, 3)), "it has no model.priors"),
        (replaced("model.prior", torch.zeros(3, 4)), r"model.prior is float32 \[3, 4\], expected"),
        (replaced("model.prior", torch.zeros(4, 3).double()), "model.prior is float64"),
        (replaced("adam.0.exp_avg", torch.zeros(1, 64)), r"adam.0.exp_avg is float32 \[1, 64\]"),
        (replaced("adam.0.step", torch.zeros(1)), r"adam.0.step is float32 \[1\], expected"),
        (replaced("stream", torch.zeros(9).byte()), r"stream is uint8 \[9\], expected uint8"),
        (replaced("stream", torch.zeros(5056).byte()), "stream is no state of a generator"),
        (replaced("progress", torch.zeros(2).double()), r"progress is float64 \[2\], expected"),
    ],
    ids=range(10),
)
def test_tensors_that_do_not_fit_are_named(run, change, message):
    directory = RunDirectory(run, Settings(**SMALL).to_json())
    with directory.held():
        directory.save(60, change(directory.checkpoint().tensors))
    for use in (train, Trainer.of_run):
        with pytest.raises(ValueError, match=f"step 60 in .* does not fit the run: {message}"):
            use(run)


@pytest.mark.parametrize("latents", [10**12, 10**17])
@pytest.mark.parametrize("network", ["linear", "nonlinear"])
def test_a_model_of_an_impossible_size(tmp_path, latents, network):
    settings = Settings(**SMALL | {"latents": latents, "network": network})
    with pytest.raises(ValueError, match=f"a model of {latents:,} variables with 3 categories"):
        Trainer(settings, tmp_path / "run")


@pytest.mark.parametrize("size", [-5, "7", None])
def test_a_manifest_of_impossible_sizes(tiny, size):
    path = tiny / "checkpoints" / "000000002.json"
    manifest = json.loads(path.read_text()) | {"metrics_size": size}
    del manifest["sha256"]
    tensors = path.with_suffix(".safetensors").read_bytes()
    path.write_text(json.dumps(manifest | {"sha256": store._seal(manifest, tensors)}))
    with pytest.warns(UserWarning, match=f"it says step 2, {size!r} bytes of metrics"):
        assert read_back(tiny)[0] == 1


PICTURES = ("reconstructions.png", "samples.png")


def test_pictures_are_there_before_the_result(finished, run, monkeypatch):
    for name in PICTURES:
        (run / name).unlink()

    def killed(self, result):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunDirectory, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        train(run)
    monkeypatch.undo()
    for name in PICTURES:
        assert (run / name).read_bytes() == (finished / name).read_bytes()
    assert train(run) == outcome(finished)


def test_pictures_of_a_finished_run_are_drawn_again(finished, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    trainer = Trainer(Settings(**SMALL), path)
    assert trainer.draw_missing() == []
    (path / "samples.png").unlink()
    os.truncate(path / "reconstructions.png", 400)
    assert [one.name for one in trainer.draw_missing()] == [*PICTURES]
    assert {name: (path / name).read_bytes() for name in PICTURES} == {
        name: (finished / name).read_bytes() for name in PICTURES
    }
    (path / "samples.png").unlink()
    shutil.rmtree(path / "checkpoints")
    with pytest.warns(UserWarning, match="no checkpoint from which to draw"):
        assert trainer.draw_missing() == []


def test_pictures_of_a_small_test_set(tmp_path):
    data = load("digits")
    few = dataclasses.replace(data, test=data.test[:5])
    Trainer(Settings(**SMALL), tmp_path / "run", data=few).run()
    assert (tmp_path / "run" / "samples.png").exists()


@pytest.mark.parametrize("task", ["vae", "complete"])
def test_pictures_have_the_names_that_are_said(tmp_path, task):
    trainer = Trainer(Settings(**SMALL, task=task), tmp_path / "run")
    images = trainer.data.test[:16].div(255)
    assert trainer.model.picture_names == (*trainer.model.pictures(images, trainer.stream),)


def test_a_torn_or_linked_picture_is_not_embedded(finished, tmp_path):
    path = tmp_path / "runs" / "one"
    shutil.copytree(finished, path)

    def embedded():
        return embed_pictures(make_blocks(gather([path]).runs)).count("<img ")

    assert embedded() == 2
    os.truncate(path / "samples.png", 400)
    assert embedded() == 1
    (path / "reconstructions.png").unlink()
    (path / "reconstructions.png").symlink_to(finished / "reconstructions.png")
    assert embedded() == 0


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "checkpoints", "tensorboard"])
def test_a_link_is_refused(tmp_path, name):
    path, outside = tmp_path / "run", tmp_path / "outside"
    path.mkdir()
    if "." in name or name == "lock":
        outside.write_text("theirs")
    else:
        outside.mkdir()
    (path / name).symlink_to(outside)
    (path / "config.json").write_text(json.dumps(Settings(**SMALL).to_json()))
    with pytest.raises((ValueError, OSError), match=rf"{name}\b.* symbolic link"):
        train(path)
    assert not outside.is_file() or outside.read_text() == "theirs"
    assert not outside.is_dir() or not list(outside.iterdir())


def test_a_link_is_replaced(finished, run, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    written = ["config.json", "result.json", "SHA256SUMS", *PICTURES]
    written += [f"checkpoints/000000060.{kind}" for kind in ("json", "safetensors")]
    for kind in ("json", "safetensors"):
        (run / "checkpoints" / f"000000060.{kind}").unlink()
    for name in written:
        (run / f"{name}.partial").symlink_to(outside)
        if name in PICTURES:
            (run / name).unlink()
            (run / name).symlink_to(outside)
    assert train(run) == outcome(finished)
    assert outside.read_text() == "theirs"
    assert [name for name in written if (run / name).is_symlink()] == []


def test_metrics_that_become_a_link_are_not_written_to(tmp_path):
    directory, outside = RunDirectory(tmp_path / "run", {}), tmp_path / "outside"
    outside.write_text("theirs\n")
    with directory.held():
        (tmp_path / "run" / "metrics.jsonl").symlink_to(outside)
        for write in (
            lambda: directory.log({"step": 1}),
            lambda: directory.save(1, {"x": torch.ones(1)}),
            directory.resume,
        ):
            with pytest.raises(OSError, match="symbolic links"):
                write()
    assert outside.read_text() == "theirs\n"


def test_a_pipe_is_no_file_of_a_run(run):
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is not a regular file"):
        train(run)


def test_a_file_that_is_too_large_is_not_read(run):
    with (run / "config.json").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"config\.json has 1,099,511,627,776 bytes, more than"):
        train(run)


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_one_sample_has_no_variance_of_contributions(tmp_path):
    train(tmp_path / "run", estimator="reinforce", samples=1)
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line, parse_constant=refuse_constant)
        assert "gradient_variance" in row
        assert "contribution_variance" not in row


def test_what_is_not_finite_is_not_logged(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Trainer, "_variances", lambda self, images: {"gradient_variance": torch.inf}
    )
    metrics, _ = train(tmp_path / "run")
    assert ["gradient_variance" in line for line in metrics] == 6 * [False]


def test_checkpoints_deleted_on_the_way_are_made_again(finished, tmp_path):
    path = tmp_path / "run"

    def delete(line):
        if line["step"] == 30:
            shutil.rmtree(path / "checkpoints")

    Trainer(Settings(**SMALL), path).run(delete)
    assert outcome(path) == outcome(finished)
    (path / "result.json").unlink()
    shutil.rmtree(path / "checkpoints")
    assert train(path) == outcome(finished)


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


def test_a_checkpoint_comes_before_whoever_is_told(tmp_path):
    def gone(line):
        if line["step"] == 20:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        Trainer(Settings(**SMALL), tmp_path / "run").run(gone)
    assert Trainer.of_run(tmp_path / "run").step == 20


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "result.json"])
def test_reports_name_what_a_finished_run_did_not_write(finished, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    assert not gather([path]).problems
    data = bytearray((path / name).read_bytes())
    # Another digit of a number: everything is in order still, but for the checksum.
    data[max(place for place, byte in enumerate(data) if chr(byte).isdigit())] ^= 1
    (path / name).write_bytes(data)
    problem, *_ = gather([finished, path]).problems
    assert problem.startswith(str(path / name))
    assert "its checksum is not the one in SHA256SUMS" in problem


def test_tensorboard_that_cannot_be_written_is_one_error(tmp_path, monkeypatch, capfd):
    def fail(self, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", fail)
    with pytest.raises(OSError, match=r"cannot write .*tensorboard: Input/output error"):
        train(tmp_path / "run")
    assert "Traceback" not in capfd.readouterr().err
    monkeypatch.undo()
    assert train(tmp_path / "run")
