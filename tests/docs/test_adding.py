"""The page on adding an estimator, followed to the letter."""

import doctest
import re
from pathlib import Path

import pytest
from helpers import RandomTable, dirichlet_probs, replicate

import carms
from carms.estimators import registry

PAGE = Path(__file__).parents[2] / "docs" / "design" / "adding-an-estimator.md"


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = {"__name__": "round_robin"}
    exec(compile(code, str(PAGE), "exec"), module)
    return module


def test_the_estimator_of_the_page(added):
    assert "round-robin" in carms.available()
    estimator = carms.make("round-robin", samples=4)
    assert repr(estimator) == "round-robin(samples=4)"
    with pytest.raises(ValueError, match="round-robin needs at least 2 samples, got samples=1"):
        carms.make("round-robin", samples=1)
    probs, f = dirichlet_probs(1.0, 2, 3, seed=7, floor=0.01), RandomTable(2, 3, seed=11)
    values, gradients = replicate(estimator, lambda z, _: f(z), probs.log(), 100_000)
    value, gradient = f.expectation(probs)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


def test_the_example_of_the_page(added):
    (example,) = doctest.DocTestFinder().find(added["RoundRobin"], "RoundRobin", globs=added)
    assert doctest.DocTestRunner().run(example) == doctest.TestResults(failed=0, attempted=4)


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="there is an estimator 'vargrad' already"):
        registry.register("vargrad")(registry.find("loorf"))
