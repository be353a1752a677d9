"""The options that couple the rollouts of a prompt: a copula and epsilon."""

import math

from carms.copulas import Circular, Copula, Independent
from carms.core.checks.options import check_choice, probability, whole_number

__all__ = ["COPULAS", "default_epsilon", "epsilon_of"]

COPULAS: dict[str, type[Copula]] = {"circular": Circular, "independent": Independent}


def epsilon_of(copula: str, epsilon: float | None, samples: int) -> float:
    """Epsilon, or its default for that many samples; an error if the copula is unknown."""
    check_choice("copula", copula, COPULAS)
    return default_epsilon(samples) if epsilon is None else probability("epsilon", epsilon)


def default_epsilon(samples: int) -> float:
    """The default of ``epsilon``, ``4 / N^1.5`` and at most 1.

    It is low enough to keep the gain, and high enough to lose nothing where there is none.

    Chosen by ``benchmarks/sequences.py``.

    Examples:
        >>> default_epsilon(16)
        0.0625
    """
    samples = whole_number("samples", samples, least=1)
    return min(1.0, 4 / (samples * math.sqrt(samples)))
