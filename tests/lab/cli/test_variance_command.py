"""The command that measures variances at the parameters of a run."""

import json
from io import StringIO

import pytest
import torch
from rich.console import Console
from small_runs import train

from carms.lab.cli.variance import Variance
from carms.lab.runs.metrics import read_metrics
from carms.lab.train import variance
from carms.lab.train.training import Trainer

QUICK = {"repetitions": 20, "images": 20}


def measured(path, *names, **flags):
    """What is printed, and what is written for each estimator."""
    console = Console(file=StringIO(), width=120)
    Variance(path, names, **QUICK | flags).run(console)
    written = json.loads((path / "variance-60.json").read_text())
    return console.file.getvalue(), {one["estimator"]: one for one in written["found"]}


def test_the_variance_is_the_logged_one(tmp_path):
    options = ("baseline=running-mean",)
    train(tmp_path / "run", estimator="reinforce", options=options)
    logged = read_metrics(tmp_path / "run", 60).series["gradient_variance"].values[-1]
    _, found = measured(tmp_path / "run", "reinforce")
    # Without its baseline, it has a hundred times that.
    assert logged / 3 < found["reinforce"]["variance"] < 3 * logged


def test_unknown_estimators_are_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="'nope'"):
        Variance(tmp_path / "no run", ("loorf", "nope"), **QUICK).run(Console(quiet=True))


@pytest.mark.parametrize(
    ("estimator", "options"), [("reinforce", ("baseline=running-mean",)), ("relax", ())]
)
def test_the_run_keeps_its_options_and_what_it_has_learned(
    tmp_path, monkeypatch, estimator, options
):
    seen = []
    train(tmp_path / "run", estimator=estimator, options=options)
    monkeypatch.setattr(variance, "gradient_variance", lambda one, *rest: seen.append(one) or 1.0)
    printed, found = measured(tmp_path / "run", estimator, "loorf")
    own = Trainer.of_run(tmp_path / "run").estimator
    assert repr(seen[0]) == repr(own)
    for name, value in own.state_dict().items():
        assert torch.equal(seen[0].state_dict()[name], value)
    assert not found[estimator]["untrained"]
    assert "untrained" not in printed
    # With other samples it has its options, and nothing learned.
    seen.clear()
    printed, found = measured(tmp_path / "run", estimator, samples=2)
    assert repr(seen[0]) == repr(own).replace("samples=3", "samples=2")
    assert f"{estimator} (untrained)" in printed
    assert found[estimator]["untrained"]


def test_other_estimators_that_learn_are_called_untrained(finished):
    printed, found = measured(finished, "carms-s", "double-cv", "reinforce")
    assert printed.count("(untrained)") == 1
    assert [name for name, one in found.items() if one["untrained"]] == ["double-cv"]


def test_all_repetitions_are_made(finished, monkeypatch):
    made = []

    def counted(estimator, model, images, repetitions, stream):
        made.append(repetitions)
        return 1.0

    monkeypatch.setattr(variance, "gradient_variance", counted)
    measured(finished, "loorf", repetitions=29)
    assert sum(made) == 29
    assert min(made) == 2


def test_the_first_estimator_may_have_no_variance(tmp_path, monkeypatch):
    train(tmp_path / "run", categories=2, latents=2)
    # To the last bit, as it is on most machines.
    exactly = variance.gradient_variance
    monkeypatch.setattr(
        variance,
        "gradient_variance",
        lambda estimator, *rest: 0.0 if estimator.name == "exact" else exactly(estimator, *rest),
    )
    printed, found = measured(tmp_path / "run", "exact", "loorf")
    assert found["exact"]["variance"] == 0
    (row,) = [line for line in printed.splitlines() if "loorf" in line]
    assert row.split("│")[5].strip() == "-"


@pytest.mark.parametrize(
    ("names", "flags", "message"),
    [
        (("loorf",), {"samples": 0}, "samples must be at least 1, got 0"),
        (("loorf",), {"repetitions": 19}, "repetitions must be at least 20, got 19"),
        (("loorf", "loorf"), {}, "give each estimator once, got loorf, loorf"),
    ],
)
def test_what_cannot_be_measured(finished, names, flags, message):
    with pytest.raises(ValueError, match=message):
        measured(finished, *names, **flags)
