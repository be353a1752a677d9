"""Random numbers as a function of an address: SplitMix64 as a counter.

The number at an address is a function of the address alone, so that processes which share nothing
but a seed draw the same numbers, for any rows in any order.
"""

from torch import Tensor

__all__ = ["signed", "uniform_at", "word_at"]


def signed(word: int) -> int:
    """The 64-bit integer with the same bits."""
    word %= 2**64
    return word - 2**64 if word >= 2**63 else word


_STEP = signed(0x9E3779B97F4A7C15)
_FIRST = signed(0xBF58476D1CE4E5B9)
_SECOND = signed(0x94D049BB133111EB)


def word_at(key: Tensor, index: Tensor | int) -> Tensor:
    """The ``index``-th of the 64-bit words, as signed integers, that SplitMix64 makes of ``key``.

    A word is a key in turn: ``word_at(word_at(seed, group), member)``.

    Args:
        key: int64 ``[...]``.
        index: int64 ``[...]`` or a number, from 0.

    Examples:
        >>> import torch
        >>> word_at(torch.tensor(1234567), torch.arange(2))
        tensor([6457827717110365317, 3203168211198807973])
    """
    jump = (index + 1) * _STEP
    word = key + (signed(jump) if isinstance(jump, int) else jump)
    word = (word ^ _shifted(word, 30)) * _FIRST
    word = (word ^ _shifted(word, 27)) * _SECOND
    return word ^ _shifted(word, 31)


def uniform_at(key: Tensor, index: Tensor | int) -> Tensor:
    """Uniforms in [0, 1), in double precision, by the same address."""
    return _shifted(word_at(key, index), 11).double() * 2.0**-53


def _shifted(word: Tensor, places: int) -> Tensor:
    """Shift to the right, with zeros from the left: torch copies the sign."""
    return (word >> places) & ((1 << (64 - places)) - 1)
