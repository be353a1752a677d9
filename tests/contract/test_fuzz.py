"""Odd arguments over the whole public surface.

Every call must end in a right result (finite, of the right shape and dtype), in a clear ValueError
or TypeError of our own, or in an error of the user's own function; and it must end.
"""

import random
import warnings
from collections import Counter

import pytest
from fuzz.calls import Calls
from fuzz.judge import outcome

SEEDS, CALLS = 50, 60
SURFACES = {
    "expectation": 8,
    "made": 6,
    "importance_bound": 2,
    "paths": 2,
    "compare": 1,
    "copula": 4,
    "coupling": 6,
    "sequences": 4,
    "subsets": 4,
    "default_epsilon": 1,
    "causal_lm": 1,
    "estimator_class": 1,
}


def run(seed, calls):
    """Count the outcomes of calls, and list those that were wrong."""
    choose, counts, wrong = random.Random(seed), Counter(), []
    for number in range(calls):
        (surface,) = choose.choices(list(SURFACES), list(SURFACES.values()))
        fuzz = Calls(f"{seed}-{number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(fuzz, surface)
        counts[found if found in ("right", "refused", "of f") else "wrong"] += 1
        if found not in ("right", "refused", "of f"):
            wrong.append(f"{seed}-{number}: {surface}({', '.join(fuzz.said)})\n{found}")
    return counts, wrong


@pytest.mark.parametrize("seed", range(SEEDS))
def test_odd_arguments(seed, monkeypatch):
    monkeypatch.setattr("carms.core.checks.tensors._memory_of", lambda _: 2 << 30)
    counts, wrong = run(seed, CALLS)
    assert not wrong, "\n\n".join(wrong)
    assert counts["right"]
    assert counts["refused"]
