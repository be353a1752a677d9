"""What type checkers and editors see."""

from pathlib import Path
from typing import get_args

import pytest
import torch
from mypy import api
from typed import usage

import carms
from carms.estimators import Name, registry

ROOT = Path(__file__).parents[2]


def test_the_names_that_editors_complete_are_those_there_are():
    assert list(get_args(Name)) == sorted([*carms.available(), *registry._ALIASES])


def test_documented_use_passes_a_strict_type_checker(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MYPYPATH", "src")
    found, errors, _ = api.run(["--no-error-summary", str(Path(usage.__file__))])
    assert not found + errors


@pytest.mark.parametrize(
    "use", [usage.by_name, usage.learning, usage.two_steps, usage.table, usage.layers]
)
def test_documented_use_runs(use):
    use(torch.zeros(5, 2, 2, requires_grad=True))
