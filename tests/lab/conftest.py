"""A finished run, and copies of it that tests may damage."""

import shutil

import pytest
from small_runs import outcome, train


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    train(path)
    return path


@pytest.fixture(scope="session")
def uninterrupted(finished):
    return outcome(finished)


@pytest.fixture
def run(finished, tmp_path):
    """A directory that lacks nothing but its result."""
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    return tmp_path / "run"
