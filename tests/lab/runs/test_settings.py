"""Settings of a run: what is refused, and what is derived."""

import subprocess

import pytest
from small_runs import COMMAND, FLAGS, SMALL

from carms.lab.runs.settings import Settings


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


def test_options_reach_the_estimator():
    settings = Settings(estimator="carms-i", options=("orderings=largest-first", "epsilon=0.25"))
    assert repr(settings.make_estimator()).count("orderings='largest-first', epsilon=0.25") == 1


def test_what_goes_without_saying():
    assert [Settings(task=task).likelihood_samples for task in ("vae", "complete")] == [100, 1000]
    assert Settings(eval_samples=7).likelihood_samples == 7
    for estimator, samples in (("arsm", 1), ("loorf", 9), ("unord", 7)):
        assert Settings(estimator=estimator, categories=9).make_estimator().samples == samples


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--estimator", "lorf"], "unknown estimator 'lorf'; did you mean loorf"),
        (["--options", "colour=red"], "carms-s has no option colour"),
        (["--options", "epsilon"], "name=value, got 'epsilon'"),
        (["--options", "epsilon=0.1", "epsilon=0.2"], "an option is given twice: epsilon=0.1"),
        (["--options", "samples=5"], "samples is a setting of its own"),
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
