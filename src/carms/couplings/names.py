"""Couplings by the name of their copula, for means over coupled samples."""

from carms.copulas.names import COPULAS, DEFAULT_SAMPLES, make_copula
from carms.couplings.base import Coupling
from carms.couplings.inverse_cdf import InverseCDF

__all__ = ["make_coupling"]


def make_coupling(coupling: str | Coupling, samples: int | None) -> tuple[Coupling | None, int]:
    """The coupling behind a name, None for independent samples, and the number of samples.

    The categories stay in the given order: a mean needs the right marginals, and not that every
    pair of categories can be drawn.

    Args:
        coupling: an object, or the name of a copula.
        samples: None for those of the object, or for the default number.
    """
    if isinstance(coupling, Coupling):
        if samples not in (None, coupling.samples):
            raise ValueError(
                f"samples={samples}, but the coupling is {coupling}: leave samples out, or give as "
                "many"
            )
        return coupling, coupling.samples
    if not isinstance(coupling, str) or coupling not in COPULAS:
        raise ValueError(
            f"coupling is a Coupling such as InverseCDF(Circular(samples=8)), or one of "
            f"{', '.join(COPULAS)}, got {coupling!r}"
        )
    samples = DEFAULT_SAMPLES if samples is None else samples
    if coupling == "independent":
        return None, samples
    return InverseCDF(make_copula(coupling, samples), "given"), samples
