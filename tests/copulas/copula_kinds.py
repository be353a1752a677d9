"""Marks for tests of every copula."""

import pytest

from carms.copulas.names import COPULAS

__all__ = ["each_copula", "each_name"]

each_name = pytest.mark.parametrize("name", list(COPULAS))
each_copula = pytest.mark.parametrize(
    "copula",
    [
        pytest.param(make(samples), id=f"{name}-{samples}")
        for name, make in COPULAS.items()
        for samples in (2, 3, 5, 10)
    ],
)
