"""The options that couple the rollouts of a prompt: a copula and epsilon."""

import math

from carms.copulas import Circular, Copula, Independent
from carms.core.checks.options import check_choice, probability, whole_number

__all__ = ["COPULAS", "check_coupling", "default_epsilon"]

COPULAS: dict[str, type[Copula]] = {"circular": Circular, "independent": Independent}


def check_coupling(copula: str, epsilon: float | None) -> None:
    """Raise an error if the copula is unknown or epsilon is not a probability."""
    check_choice("copula", copula, COPULAS)
    if epsilon is not None:
        probability("epsilon", epsilon)


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
