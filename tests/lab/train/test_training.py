"""What a run computes, and what it logs."""

import copy
import dataclasses
import errno
import json
import math
import statistics

import pytest
import torch
from small_runs import SMALL, train

import carms
from carms.lab.data.datasets import load
from carms.lab.runs.settings import Settings
from carms.lab.train import training
from carms.lab.train.evaluation import mean_bound
from carms.lab.train.training import Trainer


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
    images, _ = run.one_step()
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


def test_an_epoch_has_every_image_once_in_an_order_of_its_own(tmp_path):
    trainer = Trainer(Settings(**SMALL), tmp_path / "run")
    steps = len(trainer.train_images) // 50
    orders = [
        torch.cat([trainer.batches.at(epoch * steps + step) for step in range(steps)])
        for epoch in range(2)
    ]
    for order in orders:
        assert len(order.unique()) == len(order) == steps * 50
    assert not torch.equal(*orders)


def test_a_batch_of_more_images_than_there_are(tmp_path):
    count = len(load("digits").train)
    trainer = Trainer(Settings(**SMALL, batch=count), tmp_path / "run")
    assert len(trainer.one_step().images) == count
    with pytest.raises(ValueError, match=f"batch must be at most {count:,}, .*, got {count + 1:,}"):
        Trainer(Settings(**SMALL, batch=count + 1), tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


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


def test_nan_stops_with_the_images(tmp_path):
    trainer = Trainer(Settings(**SMALL), tmp_path / "run")
    trainer._update = lambda images: math.nan
    with pytest.raises(FloatingPointError, match=r"nan at step 1, for the images \[\d+, .*\]"):
        trainer.run()


@pytest.mark.parametrize(
    ("network", "rate"), [("linear", 1e37), ("nonlinear", 1e15)], ids=["objective", "logits"]
)
@pytest.mark.parametrize("log_every", [1, 60], ids=["in the variance", "in the next step"])
def test_a_rate_that_is_too_high_is_told_as_divergence(tmp_path, network, rate, log_every):
    changes = {"network": network, "rate": rate, "log_every": log_every, "eval_every": 0}
    settings = Settings(**SMALL | changes)
    expected = "training has diverged: after step 1 the logits or the objective are not finite"
    with pytest.raises(FloatingPointError, match=expected):
        Trainer(settings, tmp_path / "run").run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": "exact", "latents": 20}, r"exact enumerates at most .*, got C\^D = 3\^20"),
        ({"estimator": "arms", "samples": 2}, "arms is for binary variables, got 3 categories"),
    ],
)
def test_variables_that_the_estimator_cannot_take(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        Trainer(Settings(**SMALL | changes), tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("latents", [10**12, 10**17])
@pytest.mark.parametrize("network", ["linear", "nonlinear"])
def test_a_model_of_an_impossible_size(tmp_path, latents, network):
    settings = Settings(**SMALL | {"latents": latents, "network": network})
    with pytest.raises(ValueError, match=f"a model of {latents:,} variables with 3 categories"):
        Trainer(settings, tmp_path / "run")


def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    metrics, _ = train(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("objective")]
    assert [step for step, _ in found] == [line["step"] for line in metrics]
    assert [value for _, value in found] == pytest.approx([line["objective"] for line in metrics])


def test_tensorboard_that_cannot_be_written_is_one_error(tmp_path, monkeypatch, capfd):
    def fail(self, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", fail)
    with pytest.raises(OSError, match=r"cannot write .*tensorboard: Input/output error"):
        train(tmp_path / "run")
    assert "Traceback" not in capfd.readouterr().err
    monkeypatch.undo()
    assert train(tmp_path / "run")


def test_a_run_is_opened_as_it_was_at_a_step(tmp_path):
    path, kept = tmp_path / "run", {}
    trainer = Trainer(Settings(**SMALL), path)
    trainer.run(lambda line: kept.update({line["step"]: copy.deepcopy(trainer.model)}))
    for asked, step in ((40, 40), (60, 60), (None, 60)):
        opened = Trainer.of_run(path, step=asked)
        assert opened.step == step
        for one, other in zip(opened.model.parameters(), kept[step].parameters(), strict=True):
            assert torch.equal(one, other)
