"""What is compared: names, options and objects."""

import pytest
import torch
from helpers import RandomTable, dirichlet_probs, generator

import carms
from carms.copulas import Dirichlet


@pytest.fixture
def problem():
    probs = dirichlet_probs(1.0, 1, 3, seed=3, floor=0.05)
    return RandomTable(1, 3, seed=1), probs.log()


def row(table, name):
    return table.to_dict()[name]


def test_objects_and_names(problem):
    made = carms.make("carms-s", samples=6, epsilon=0.1)
    table = carms.compare(*problem, ["carms-s", made], samples=3, replicates=5)
    assert list(table.to_dict()) == ["carms-s", "carms-s(epsilon=0.1)"]
    assert [values["samples"] for values in table.to_dict().values()] == [3, 6]


def test_samples_of_a_copula_are_its_own(problem):
    entries = {"with its own": ("carms-i", {"copula": Dirichlet(5)})}
    table = carms.compare(*problem, entries, samples=3, replicates=5)
    assert table.to_dict()["with its own"]["samples"] == 5


def test_estimators_stay_as_they_are(problem):
    f, logits = problem
    kept = [
        carms.make("reinforce", baseline="running-mean"),
        carms.make("carms-t", samples=4),
        carms.make("ridge", samples=4),
    ]
    before = [{k: v.clone() for k, v in each.state_dict().items()} for each in kept]
    carms.compare(f, logits, kept, replicates=20)
    for each, state in zip(kept, before, strict=True):
        assert each.training
        for key, value in each.state_dict().items():
            assert torch.equal(value, state[key]), (each, key)


def test_a_name_is_measured_as_a_call_by_name():
    """A single example, on which slopes mislead: only an object that is kept learns that."""
    weights = 6 * torch.randn(6, 6, generator=generator(1), dtype=torch.float64)

    def steep(z):
        return (z.flatten(-2) @ weights).tanh().sum(-1)

    logits = torch.zeros(3, 2, dtype=torch.float64)

    def measured(entry):
        table = carms.compare(steep, logits, {"it": entry}, 4, 200, generator=generator(2))
        return row(table, "it")["variance"]

    def by_name():
        leaf = logits.clone().requires_grad_()
        value = carms.expectation(steep, leaf, "carms-t", samples=4, generator=stream)
        return torch.autograd.grad(value, leaf)[0]

    stream = generator(2)
    variance = torch.stack([by_name() for _ in range(200)]).var(0).sum().item()
    assert measured("carms-t") == pytest.approx(variance)
    assert measured(carms.make("carms-t", samples=4)) < 0.7 * variance


def test_a_single_estimator_needs_no_list(problem):
    assert list(carms.compare(*problem, "loorf", replicates=3).to_dict()) == ["loorf"]
    made = carms.make("loorf", samples=4)
    assert list(carms.compare(*problem, made, replicates=3).to_dict()) == ["loorf"]


def test_two_settings_of_one_estimator_keep_their_rows(problem):
    plain = carms.make("reinforce", samples=4)
    shifted = carms.make("reinforce", samples=4, baseline=1.0)
    table = carms.compare(*problem, [plain, shifted], replicates=5)
    assert len(table.to_dict()) == 2
    twice = carms.compare(*problem, ["loorf", "loorf"], replicates=5)
    assert len(twice.to_dict()) == 2


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        ([("carms-s", 4)], r"\('carms-s', 4\)"),
        ({"b": ["carms-s", {"epsilon": 0.1}]}, r"\['carms-s', \{'epsilon': 0.1\}\]"),
        ({"carms-s": {"orderings": 4}}, r"\{'orderings': 4\}"),
        (["loorf", None], "None"),
        (carms.Estimator, "<class .*>"),
        (4, "4"),
    ],
)
def test_entries_that_are_none(problem, wrong, got):
    message = rf"^an entry is a name, \(name, options\) or an estimator, got {got}$"
    with pytest.raises(TypeError, match=message):
        carms.compare(*problem, wrong, replicates=3)
