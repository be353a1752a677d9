import pytest
from helpers import RandomTable, dirichlet_probs


@pytest.fixture
def problem():
    probs = dirichlet_probs(1.0, 1, 3, seed=3, floor=0.05)
    return RandomTable(1, 3, seed=1), probs.log()
