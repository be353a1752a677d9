"""Policy gradients on a task that can be checked, and the command that compares them."""

import json
import subprocess
import sys

import pytest
import torch
from rich.console import Console

from carms import sequences
from carms.lab.cli.rollouts import Rollouts
from carms.lab.figures.rewards import steps_to, variance_ratio
from carms.lab.models import addition
from carms.lab.runs.rollout_settings import RolloutSettings
from carms.lab.runs.store import RunDirectory
from carms.lab.train.rollouts import _objective, train_rollouts

SMALL = {
    "method": "carms",
    "seed": 1,
    "steps": 12,
    "samples": 4,
    "prompts": 3,
    "epsilon": None,
    "rate": 1e-3,
    "log_every": 5,
}


def rollouts(*arguments, check=True):
    return subprocess.run(
        [sys.executable, "-m", "carms", "rollouts", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
    )


def metrics(path):
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: row[name] for name in row if name != "milliseconds"} for row in lines]


def number(tokens):
    return sum(int(digit) * 4**place for place, digit in enumerate(tokens))


def test_rewards_are_the_shares_of_right_digits():
    prompts = addition.held_out()[:50]
    for prompt, answer in zip(prompts, addition.answers(prompts), strict=True):
        assert number(answer) == (number(prompt[:3]) + number(prompt[3:])) % 64
    right = addition.answers(prompts)
    wrong_in_one = right.clone()
    wrong_in_one[:, 1] = (right[:, 1] + 1) % 4
    tokens = torch.stack((right, wrong_in_one, (right + 1) % 4), 1)
    expected = torch.tensor([1, 2 / 3, 0]).expand(50, 3)
    torch.testing.assert_close(addition.rewards(prompts, tokens), expected)


def test_held_out_prompts_are_never_trained_on():
    held_out = {tuple(prompt) for prompt in addition.held_out().tolist()}
    seen = addition.problems(100_000, torch.Generator().manual_seed(0)).tolist()
    assert len(held_out) == 512
    assert not held_out & {tuple(prompt) for prompt in seen}


def test_the_memory_of_the_model_changes_nothing():
    model = addition.Adder(torch.Generator().manual_seed(0))
    prompts = addition.held_out()[:5]
    group = sequences.rollouts(model.step, prompts, 4, addition.DIGITS)
    expected = group.log_width.float()
    torch.testing.assert_close(model.log_probs(prompts, group.tokens), expected)
    greedy, tokens = model.greedy(prompts)[:, 0], prompts
    for place in range(addition.DIGITS):
        tokens = torch.cat((tokens, greedy[:, place : place + 1]), 1)
        logits, _ = model(tokens[:, :-1])
        assert logits[:, -1].argmax(-1).equal(greedy[:, place])


def test_rloo_is_leave_one_out_on_independent_rollouts():
    settings = RolloutSettings(**{**SMALL, "method": "rloo"})
    model = addition.Adder(torch.Generator().manual_seed(0))
    prompts = addition.held_out()[:3]
    value = _objective(model, prompts, "rloo", settings, torch.Generator().manual_seed(2))
    found = torch.autograd.grad(value, [*model.parameters()])

    group = sequences.rollouts(
        model.step, prompts, 4, 3, "independent", generator=torch.Generator().manual_seed(2)
    )
    rewards = addition.rewards(prompts, group.tokens)
    baseline = (rewards.sum(-1, keepdim=True) - rewards) / 3
    loss = ((rewards - baseline) * model.log_probs(prompts, group.tokens)).mean()
    assert value.item() == pytest.approx(rewards.mean().item())
    for one, other in zip(found, torch.autograd.grad(loss, [*model.parameters()]), strict=True):
        torch.testing.assert_close(one, other)


def test_a_seed_gives_the_same_run(tmp_path):
    settings = RolloutSettings(**SMALL)
    train_rollouts(settings, tmp_path / "one")
    train_rollouts(settings, tmp_path / "two")
    lines = metrics(tmp_path / "one")
    assert lines == metrics(tmp_path / "two")
    assert [line["step"] for line in lines] == [0, 5, 10, 12]
    # Stopped on its way: it begins anew.
    (tmp_path / "two" / "result.json").unlink()
    train_rollouts(settings, tmp_path / "two")
    assert lines == metrics(tmp_path / "two")
    train_rollouts(RolloutSettings(**{**SMALL, "seed": 2}), tmp_path / "three")
    assert lines != metrics(tmp_path / "three")
    rloo = RolloutSettings(**{**SMALL, "method": "rloo"})
    train_rollouts(rloo, tmp_path / "four")
    assert metrics(tmp_path / "four")[0] == lines[0]
    assert metrics(tmp_path / "four")[-1] != lines[-1]


@pytest.mark.parametrize("method", ["rloo", "carms"])
def test_it_learns_a_sum(method):
    settings = RolloutSettings(**{**SMALL, "samples": 16})
    model = addition.Adder(torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    prompt, stream = addition.held_out()[:1], torch.Generator().manual_seed(0)
    for _ in range(60):
        optimiser.zero_grad()
        (-_objective(model, prompt, method, settings, stream)).backward()
        optimiser.step()
    assert model.greedy(prompt)[0].equal(addition.answers(prompt))


def test_the_command(tmp_path):
    flags = ("--steps", 6, "--log-every", 3, "--samples", 4, "--prompts", 2, "--seeds", 2)
    out = ("--workers", 2, "--out", tmp_path / "out")
    first = rollouts(*flags, *out).stdout
    assert "4 runs under" in first
    assert "carms-seed1: " in first
    assert "never (0/2)" in first
    assert "carms - rloo with the same seed, right digits" in first
    assert (tmp_path / "out" / "rewards.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "rewards.svg").exists()
    run = tmp_path / "out" / "carms-seed1"
    assert [line["step"] for line in metrics(run)] == [0, 3, 6]

    before = (run / "result.json").stat().st_mtime_ns
    again = rollouts(*flags, *out).stdout
    assert "4 finished" in again
    assert again.partition("After")[2] == first.partition("After")[2]
    assert (run / "result.json").stat().st_mtime_ns == before

    other = rollouts(*flags, "--rate", 1e-2, *out, check=False)
    assert other.returncode == 1
    assert "holds a run of other settings (rate: " in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--samples", 1), "samples must be at least 2"),
        (("--seeds", 0), "seeds must be from 1 to 10,000, got 0"),
        (("--seeds", 10**9), "seeds must be from 1 to 10,000, got 1,000,000,000"),
        (("--epsilon", 2), "epsilon is a probability"),
        (("--methods", "rloo", "rloo"), "methods are rloo, carms or both"),
        (("--rate", "inf"), "rate must be positive and finite, got inf"),
    ],
)
def test_bad_input_is_one_line(tmp_path, flags, message):
    done = rollouts(*flags, "--out", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "it does not have the 3 lines of the run"),
        ('{"step": 1}\n', "it does not have the 3 lines of the run"),
        ("[1]\n", "it is no object"),
        ("".join(f'{{"step": {step}}}\n' for step in range(3)), "it has no reward"),
    ],
)
def test_damaged_metrics_are_named(tmp_path, lines, message):
    flags = {"steps": 2, "samples": 4, "prompts": 2, "log_every": 1}
    path = tmp_path / "carms-seed0"
    train_rollouts(RolloutSettings(**SMALL | flags | {"seed": 0}), path)
    command = Rollouts(tmp_path, ("carms",), seeds=1, rate=SMALL["rate"], **flags)
    command.run(Console(quiet=True))
    (path / "SHA256SUMS").unlink()
    (path / "metrics.jsonl").write_text(lines)
    with pytest.raises(ValueError, match=rf"{path}/metrics\.jsonl is damaged: {message}"):
        command.run(Console(quiet=True))


def test_a_run_that_another_process_holds_is_no_failure(tmp_path):
    flags = {"steps": 2, "samples": 4, "prompts": 2, "log_every": 1}
    settings = RolloutSettings(**SMALL | flags | {"seed": 0})
    command = Rollouts(tmp_path, ("carms",), seeds=1, rate=SMALL["rate"], **flags)
    with (
        RunDirectory(tmp_path / "carms-seed0", settings.to_json()).held(),
        pytest.raises(ValueError, match="another process trains 1 run: when it has ended"),
    ):
        command.run(Console(quiet=True))
    command.run(Console(quiet=True))


def test_summaries():
    runs = [
        [{"step": 0, "reward": 0.2}, {"step": 5, "reward": 0.9, "variance_rloo": 2.0}],
        [{"step": 0, "reward": 0.2}, {"step": 5, "reward": 0.6, "variance_rloo": 6.0}],
    ]
    for run, variance in zip(runs, (1.0, 3.0), strict=True):
        run[1]["variance_carms"] = variance
    assert steps_to(0.8, runs) == [5, None]
    assert variance_ratio(runs) == {5: 0.5}
