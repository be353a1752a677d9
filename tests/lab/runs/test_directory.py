"""The directory of a run: whose it is, and what happens if its files are damaged."""

import json
import math
import os
import shutil

import pytest
from rich.console import Console
from small_runs import SMALL, contents, flip, outcome, train

from carms.lab.cli.train import Vae
from carms.lab.runs import reading
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.training import Trainer


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


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match="run is a file, and a run is written into a directory"):
        Trainer(Settings(**SMALL), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


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


@pytest.mark.parametrize("kept", ["metrics.jsonl", "result.json"])
def test_what_belongs_to_nobody_is_nobodys(finished, tmp_path, kept):
    path = tmp_path / "run"
    path.mkdir()
    shutil.copy(finished / kept, path)
    with pytest.raises(ValueError, match=r"a run without its config\.json"):
        train(path)
    assert [one.name for one in path.iterdir()] == [kept]


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


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(5, "Input/output error")])
@pytest.mark.parametrize(
    "name", ["config.json", "metrics.jsonl", "000000060.json", "000000060.safetensors"]
)
def test_what_cannot_be_read_stops_the_run_and_is_left_alone(run, monkeypatch, name, error):
    read, before = reading.read_bounded, contents(run)

    def failing(path, limit):
        if path.name == name:
            raise error
        return read(path, limit)

    monkeypatch.setattr(reading, "read_bounded", failing)
    with pytest.raises(OSError, match=f"cannot read .*{name}: {error.strerror}"):
        train(run)
    assert contents(run) == before


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("contents", ["", "[]"])
def test_a_damaged_file_is_named(tmp_path, name, contents):
    path = tmp_path / "run"
    train(path)
    (path / name).write_text(contents)
    with pytest.raises(ValueError, match=rf"{name} is damaged"):
        train(path)


def test_a_result_without_its_numbers_is_damaged(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"result\.json is damaged: its checksum is not the one in SHA256SUMS"
    ):
        train(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": None}, "step None of 60"),
        ({"train_log_likelihood": "low"}, "train_log_likelihood is 'low'"),
        ({"test_log_likelihood": math.nan}, "test_log_likelihood is nan"),
        ({"train_standard_error": None}, "it has no numbers train_log"),
    ],
)
def test_a_result_of_something_else_is_named(finished, tmp_path, changes, message):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "SHA256SUMS").unlink()
    result = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps(result | changes))
    with pytest.raises(ValueError, match=rf"result\.json is damaged: {message}"):
        Vae(Settings(**SMALL), path).run(Console(quiet=True))


def test_a_run_with_a_result_of_something_else_is_not_finished(finished, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "SHA256SUMS").unlink()
    (path / "result.json").write_text("{}")
    with pytest.raises(ValueError, match=r"result\.json is damaged: step None of 60; remove it"):
        train(path)


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


def test_the_checksums_of_a_finished_run_do_not_count_after_it_is_resumed(run):
    # The last checkpoint is gone too, so that lines of metrics are written again.
    (run / "checkpoints" / "000000060.json").unlink()
    directory = RunDirectory(run, Settings(**SMALL).to_json())
    with directory.held():
        assert directory.resume().step == 40
    (found,), problems = gather([run])
    assert not problems
    assert found.step == 40 == directory.metrics[-1]["step"]


@pytest.mark.parametrize("damage", [b"\xff", b" " * 100_000])
def test_damaged_checksums_are_named_themselves(finished, tmp_path, damage):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "SHA256SUMS").write_bytes(damage)
    with pytest.raises(ValueError, match=r"^[^ ]*/SHA256SUMS (is damaged|has 100,000 bytes)"):
        train(path)
    (problem,) = gather([finished, path]).problems
    assert problem.startswith(str(path / "SHA256SUMS"))
