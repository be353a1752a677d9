"""Checkpoints: damaged, missing, of another run."""

import json
import os
import shutil

import pytest
import torch
from small_runs import SMALL, contents, damage_by_one_bit, flip, outcome, train

from carms.lab.runs.checkpoints import seal
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.training import Trainer

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


def damage_by_truncation(path):
    os.truncate(path, path.stat().st_size // 2)


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


def test_a_checkpoint_of_another_step_is_damaged(run):
    for kind in ("json", "safetensors"):
        path = run / "checkpoints" / f"000000040.{kind}"
        shutil.copy(path, path.with_name(f"000000060.{kind}"))
    with pytest.warns(UserWarning, match=r"it says step 40, .*: using the one before"):
        assert Trainer.of_run(run).step == 40


@pytest.mark.parametrize("size", [-5, "7", None])
def test_a_manifest_of_impossible_sizes(tiny, size):
    path = tiny / "checkpoints" / "000000002.json"
    manifest = json.loads(path.read_text()) | {"metrics_size": size}
    del manifest["sha256"]
    tensors = path.with_suffix(".safetensors").read_bytes()
    path.write_text(json.dumps(manifest | {"sha256": seal(manifest, tensors)}))
    with pytest.warns(UserWarning, match=f"it says step 2, {size!r} bytes of metrics"):
        assert read_back(tiny)[0] == 1


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


def test_settings_are_those_of_the_checkpoint(run):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"seed": 5}))
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 5 now"):
        Trainer.of_run(run)


def test_checkpoints_say_whose_they_are(finished, run):
    (run / "config.json").unlink()
    before = contents(run)
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 1 now"):
        train(run, seed=1)
    assert contents(run) == before
    assert train(run) == outcome(finished)
    assert json.loads((run / "config.json").read_text()) == Settings(**SMALL).to_json()


def test_checkpoints_without_metrics_are_a_run_too(tmp_path):
    directory = RunDirectory(tmp_path / "run", {"seed": 0})
    with directory.held():
        directory.save(1, {"x": torch.ones(1)})
    with pytest.raises(ValueError, match=r"other settings .seed: 0 there, 1 now"):
        RunDirectory(tmp_path / "run", {"seed": 1})


def test_checkpoints_that_cannot_be_listed_stop_the_run(run, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", denied)
    with pytest.raises(PermissionError, match="checkpoints"):
        train(run)


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
