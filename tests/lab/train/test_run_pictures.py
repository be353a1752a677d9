"""The pictures of a run."""

import dataclasses
import os
import shutil
import subprocess
from io import StringIO

import pytest
from rich.console import Console
from small_runs import COMMAND, FLAGS, SMALL, outcome, train
from written_runs import PICTURE

from carms.lab.cli.main import parse
from carms.lab.data.datasets import load
from carms.lab.figures.labels import PICTURES_OF
from carms.lab.report.blocks import make_blocks
from carms.lab.report.pictures import embed_pictures
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.training import Trainer

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
    with pytest.warns(UserWarning, match=r"^samples cannot be drawn again: .* of step 60; it has"):
        assert trainer.draw_missing() == []


def test_only_what_is_missing_is_drawn_and_only_from_the_last_step(finished, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "samples.png").unlink()
    # A whole picture is left alone, whatever it shows.
    (path / "reconstructions.png").write_bytes(PICTURE)
    trainer = Trainer(Settings(**SMALL), path)
    assert trainer.draw_missing() == [path / "samples.png"]
    assert (path / "samples.png").read_bytes() == (finished / "samples.png").read_bytes()
    (path / "samples.png").unlink()
    os.truncate(path / "checkpoints" / "000000060.safetensors", 100)
    with pytest.warns(UserWarning, match=r"^samples cannot be drawn again: .* is damaged"):
        assert trainer.draw_missing() == []
    assert not (path / "samples.png").exists()
    assert (path / "reconstructions.png").read_bytes() == PICTURE


def test_pictures_of_a_small_test_set(tmp_path):
    data = load("digits")
    few = dataclasses.replace(data, test=data.test[:5])
    Trainer(Settings(**SMALL), tmp_path / "run", data=few).run()
    assert (tmp_path / "run" / "samples.png").exists()


@pytest.mark.parametrize("task", ["vae", "complete"])
def test_pictures_have_the_names_that_are_said(tmp_path, task):
    trainer = Trainer(Settings(**SMALL, task=task), tmp_path / "run")
    images = trainer.data.test[:16].div(255)
    assert PICTURES_OF[trainer.settings.task] == (*trainer.model.pictures(images, trainer.stream),)


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


def test_a_finished_run_is_read_without_its_model(finished, monkeypatch):
    monkeypatch.delattr(Trainer, "__init__")
    console = Console(file=StringIO(), width=200)
    parse(["vae", *FLAGS, "--out", str(finished)]).run(console)
    assert "is finished" in console.file.getvalue()
    with pytest.raises(ValueError, match=r"other settings \(seed: 0 there, 1 now\): take another"):
        parse(["vae", *FLAGS, "--seed", "1", "--out", str(finished)]).run(console)
