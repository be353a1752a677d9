"""Files that are written whole or not at all, and never through a link."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from small_runs import SMALL, outcome, train

from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.runs.writing import check_writable, write_atomically
from carms.lab.train.training import Trainer

PICTURES = ("reconstructions.png", "samples.png")


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    monkeypatch.setattr(
        os, "fsync", lambda file: seen.append((os.fstat(file).st_ino, path.exists()))
    )
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert seen == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(file):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert not [*tmp_path.iterdir()]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"cannot write {path}: No space left on device"):
        write_atomically(path, b"new")
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(path, b"old")]


def test_two_processes_write_the_same_file_at_once(tmp_path, monkeypatch):
    path, real, contents = tmp_path / "file", os.fsync, [b"theirs"]

    def meanwhile(descriptor):
        if contents:
            write_atomically(path, contents.pop())
            assert path.read_bytes() == b"theirs"
        real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_atomically(path, b"ours")
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(path, b"ours")]


def test_what_cannot_be_written_is_known_beforehand(tmp_path):
    (tmp_path / "file").touch()
    for path in (Path(), Path("a/.."), tmp_path):
        with pytest.raises(ValueError, match=f"name a file to write, got the directory '{path}'"):
            check_writable(path)
    with pytest.raises(ValueError, match="file is not a directory"):
        check_writable(tmp_path / "file" / "new" / "page.html")
    check_writable(tmp_path / "new" / "page.html")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_known_beforehand(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="no permission to write into"):
        check_writable(tmp_path / "page.html")


def test_a_name_that_is_taken_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "file", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_metrics_are_on_disk_before_a_checkpoint_counts_them(tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path / "run", {})
    metrics, seen = tmp_path / "run" / "metrics.jsonl", []
    with directory.held():
        directory.log({"step": 1})
        monkeypatch.setattr(os, "fsync", lambda file: seen.append(os.fstat(file).st_ino))
        directory.save(1, {"stream": torch.zeros(1)})
    assert seen[0] == metrics.stat().st_ino
    assert directory.checkpoint().metrics_size == metrics.stat().st_size


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

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        trainer.run()
    monkeypatch.undo()
    assert RunDirectory(path, Settings(**SMALL).to_json()).resume().step == 20
    assert not list(path.rglob("*.partial"))


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
