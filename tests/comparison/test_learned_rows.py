"""Estimators with parameters in a comparison."""

import torch
from helpers import generator

import carms


def smooth(z):
    return 3 + (z * torch.arange(6.0).view(2, 3)).sum((-2, -1))


def test_learned_estimators_are_trained_first():
    logits = torch.randn(2, 3, generator=generator())
    names = ["loorf", "relax", "rodeo"]
    untrained = carms.compare(smooth, logits, names, 4, 100, generator(1), train=0)
    trained = carms.compare(smooth, logits, names, 4, 100, generator(1))
    assert [row.trained for row in untrained.measurements] == [None, 0, 0]
    assert [row.trained for row in trained.measurements] == [None, 300, 300]
    for before, after in zip(untrained.measurements[1:], trained.measurements[1:], strict=True):
        assert after.variance < 0.5 * before.variance
        assert after.bias < 4 * after.standard_error
    assert str(untrained).splitlines()[-1] == "not trained here: relax, rodeo"
    assert str(trained).splitlines()[-1] == "trained for 300 steps: relax, rodeo"


def test_a_learned_object_is_measured_as_it_is():
    logits = torch.zeros(2, 3, dtype=torch.float64)
    given = carms.make("rodeo", samples=4)
    kept = {key: value.clone() for key, value in given.state_dict().items()}
    table = carms.compare(smooth, logits, {"mine": given}, replicates=5)
    assert str(table).splitlines()[-1] == "not trained here: mine"
    assert all(torch.equal(value, kept[key]) for key, value in given.state_dict().items())
