"""Powers with whole exponents."""

from torch import Tensor

__all__ = ["integer_power"]


def integer_power(base: Tensor, exponent: int, in_place: bool = False) -> Tensor:
    """``base^exponent`` from squares and cubes, since ``torch.pow`` is fast only for 2 and 3.

    With ``in_place``, ``base`` is overwritten.
    """
    if exponent == 1:
        return base
    for factor in (3, 2):
        if exponent % factor == 0:
            root = integer_power(base, exponent // factor, in_place)
            return root.pow(factor) if root is base and not in_place else root.pow_(factor)
    return integer_power(base, exponent - 1).mul_(base)
