"""The tasks of the contest: who takes part, and that training them is what it says."""

from dataclasses import replace

import pytest
import torch

import carms
from carms.estimators import find
from carms.lab.contest import features
from carms.lab.contest.entries import OVERDRAFT, categorical_entries
from carms.lab.contest.results import Run
from carms.lab.contest.running import result_of
from carms.lab.contest.tasks import TASKS


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(features, "TREES", 5)


CHEAP = [name for name, task in TASKS.items() if not task.dataset]


@pytest.mark.parametrize("shape", [(2, 4), (12, 5), (20, 2)])
@pytest.mark.parametrize("differentiable", [True, False])
def test_every_estimator_takes_part_or_has_a_reason(shape, differentiable):
    entries = categorical_entries(*shape, 8, differentiable)
    assert tuple(entry.name for entry in entries) == carms.available()
    for entry in entries:
        kind = find(entry.name)
        if kind.binary_only and shape[1] > 2:
            assert entry.reason == "it is for binary variables"
        elif not kind.black_box and not differentiable:
            assert entry.reason == "it needs the gradient of f"
        elif entry.reason:
            assert "evaluations" in entry.reason
        else:
            made = carms.make(entry.name, samples=entry.samples)
            assert made.evaluations(*shape) in (None, entry.evaluations)
            assert 0 < entry.evaluations <= OVERDRAFT * 8


def test_samples_use_the_budget_up():
    entries = {entry.name: entry for entry in categorical_entries(2, 4, 8, True)}
    assert (entries["loorf"].samples, entries["loorf"].evaluations) == (8, 8)
    assert (entries["rebar"].samples, entries["rebar"].evaluations) == (4, 8)
    assert (entries["muprop"].samples, entries["muprop"].evaluations) == (7, 8)
    assert entries["exact"].evaluations == 16


def test_every_task_has_its_reference_among_its_entries():
    for task in TASKS.values():
        reference = task.find(task.reference)
        assert not reference.reason
        assert reference.evaluations == task.evaluations
        assert task.steps % task.judge_every == 0
        assert len(task.rates) == 3
        assert task.seeds >= (5 if task.dataset else 10)


@pytest.mark.parametrize("name", CHEAP)
def test_a_run_is_reproducible_and_its_seed_matters(name):
    task = replace(TASKS[name], steps=2, judge_every=2)
    rate = task.rates[0]
    torch.manual_seed(0)
    first, again, other = (
        result_of(task, Run("final", task.reference, rate, seed)) for seed in (0, 0, 1)
    )
    assert not first.error
    assert first.scores == again.scores != other.scores


@pytest.mark.parametrize("name", ["routing", "control", "features"])
def test_entries_with_the_same_seed_start_alike_and_see_the_same_examples(name):
    task = TASKS[name]
    names = [entry.name for entry in task.entries() if not entry.reason]
    learners = [task.start(task.find(each), task.rates[0], 3) for each in (names[0], names[-1])]
    assert learners[0].judge() == learners[1].judge()
    for learner in learners:
        learner.step()
    drawn = [torch.rand(3, generator=learner.examples) for learner in learners]
    assert torch.equal(*drawn)


def test_routing_is_learned():
    task = replace(TASKS["routing"], steps=150, judge_every=10)
    scores = result_of(task, Run("final", "straight-through", 1e-2, 0)).scores
    assert scores[-1] < 0.7 * scores[0]


def test_a_learned_estimator_learns():
    task = TASKS["routing"]
    learner = task.start(task.find("double-cv"), 1e-2, 0)
    estimator = learner._estimator
    before = [parameter.clone() for parameter in estimator.parameters()]
    for _ in range(3):
        learner.step()
    after = [*estimator.parameters()]
    assert not any(map(torch.equal, before, after))


def test_digits_are_judged_on_images_that_are_not_trained_on():
    from carms.lab.contest.images import held_out
    from carms.lab.data.datasets import load

    data, whole = held_out("digits"), load("digits")
    assert torch.equal(torch.cat((data.train, data.valid)), whole.train)
    assert torch.equal(data.test, whole.test)
    assert len(data.valid) == 259


@pytest.mark.parametrize("budget", [1, 3])
def test_a_budget_below_or_between_what_pairs_need(budget):
    entries = {entry.name: entry for entry in categorical_entries(2, 2, budget, True)}
    assert entries["disarm"].samples == 2
    assert entries["loorf"].samples == max(budget, 2)
