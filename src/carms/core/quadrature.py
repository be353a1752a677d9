"""Gauss rules from their three-term recurrences, so that torch is all we need."""

import torch
from torch import Tensor

from carms.core.memo import constant

__all__ = ["gauss_laguerre", "gauss_legendre"]


def _gauss_rule(diagonal: Tensor, off_diagonal: Tensor, mass: float) -> tuple[Tensor, Tensor]:
    """Golub-Welsch nodes; weights as Christoffel numbers, accurate even where they are tiny."""
    jacobi = torch.diag(diagonal) + torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1)
    nodes = torch.linalg.eigvalsh(jacobi)
    previous, current = torch.zeros_like(nodes), torch.ones_like(nodes)
    squares = torch.ones_like(nodes)
    for k in range(len(off_diagonal)):
        below = off_diagonal[k - 1] * previous if k else 0.0
        previous, current = current, ((nodes - diagonal[k]) * current - below) / off_diagonal[k]
        squares = squares + current.square()
    return nodes, mass / squares


@constant
def gauss_legendre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights for the integral over (0, 1), float64 on the CPU.

    Examples:
        >>> nodes, weights = gauss_legendre(5)
        >>> round(float((weights * nodes**9).sum()), 12)
        0.1
    """
    k = torch.arange(1, count, dtype=torch.float64, device="cpu")
    diagonal = torch.zeros(count, dtype=torch.float64, device="cpu")
    nodes, weights = _gauss_rule(diagonal, k / (4 * k * k - 1).sqrt(), 2.0)
    return (nodes + 1) / 2, weights / 2


@constant
def gauss_laguerre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights for the integral of ``t exp(-t) f(t)`` over (0, inf), float64 on the CPU.

    Examples:
        >>> nodes, weights = gauss_laguerre(5)
        >>> round(float((weights * nodes**3).sum()), 9)
        24.0
    """
    k = torch.arange(count, dtype=torch.float64, device="cpu")
    return _gauss_rule(2 * k + 2, (k[1:] * (k[1:] + 1)).sqrt(), 1.0)
