"""Colours of estimators, the same in every picture and on every page."""

from zlib import crc32

__all__ = ["colour"]

# Colours of Okabe and Ito, which colour-blind people can tell apart.
_CHOSEN = {
    "loorf": "#000000",
    "carms-s": "#D55E00",
    "carms-t": "#56B4E9",
    "carms-i": "#0072B2",
    "carms-g": "#009E73",
    "unord": "#CC79A7",
    "arsm": "#E69F00",
    "reinforce": "#999999",
}
# Visible on white and on black, and different from the colours above.
_OTHERS = ("#AA4499", "#44AA99", "#CC6677", "#9C6B3C", "#7080D8", "#999933")


def colour(estimator: str) -> str:
    """Colour of an estimator as ``#`` and six digits; a name without a chosen one has it by hash.

    Examples:
        >>> colour("carms-s")
        '#D55E00'
        >>> colour("my-estimator") == colour("my-estimator")
        True
    """
    return _CHOSEN.get(estimator) or _OTHERS[crc32(estimator.encode()) % len(_OTHERS)]
