"""Copulas by name."""

from collections.abc import Callable

from carms.copulas.base import Copula
from carms.copulas.circular import Circular
from carms.copulas.dirichlet import Dirichlet
from carms.copulas.gaussian import Gaussian
from carms.copulas.independent import Independent
from carms.copulas.stratified import Stratified

__all__ = ["COPULAS", "DEFAULT_SAMPLES", "make_copula"]

# The same as that of the estimators, in whose signatures it stands.
DEFAULT_SAMPLES = 8

COPULAS: dict[str, Callable[[int], Copula]] = {
    "dirichlet": Dirichlet,
    "dirichlet-reflected": lambda samples: Dirichlet(samples, reflected=True),
    "gaussian": Gaussian,
    "stratified": Stratified,
    "circular": Circular,
    "independent": Independent,
}


def make_copula(copula: str | Copula, samples: int | None) -> Copula:
    """The copula behind a name, or the object itself if it has as many samples.

    Args:
        copula: an object, or one of the names in ``COPULAS``.
        samples: None for those of the object, or for the default number.
    """
    if isinstance(copula, Copula):
        if samples not in (None, copula.samples):
            raise ValueError(
                f"samples={samples}, but the copula is {copula}: leave samples out, or give as many"
            )
        return copula
    if not isinstance(copula, str) or copula not in COPULAS:
        raise ValueError(f"copula is one of {', '.join(COPULAS)}, got {copula!r}")
    return COPULAS[copula](DEFAULT_SAMPLES if samples is None else samples)
