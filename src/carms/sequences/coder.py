"""Points that choose tokens by inverse CDF, with fresh random bits for those that are spent.

A point is an integer below its span, ``[0, span)`` being the interval of the tokens so far. The
probabilities, rounded once, cut the span at integers; the point keeps its place in the piece that
it chose, which is blown up by a power of two, and draws the new low bits afresh. Integers lose
nothing, so given the past a point is exactly uniform, however many tokens there were.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Choice", "Coder"]


class Choice(NamedTuple):
    """Tokens, and the pieces ``[lower, upper)`` of ``[0, span)`` that they own, all ``[rows]``."""

    token: Tensor
    lower: Tensor
    upper: Tensor
    span: Tensor

    def fill(self, ended: Tensor, token: Tensor) -> "Choice":
        """The choice with the given token for certain in rows that had ended before."""
        return Choice(
            torch.where(ended, token, self.token),
            self.lower.masked_fill(ended, 0),
            self.upper.masked_fill(ended, 1),
            self.span.masked_fill(ended, 1),
        )


class Coder:
    """One point per row, from uniforms ``u [rows]`` in (0, 1).

    Examples:
        >>> coder = Coder(torch.tensor([0.3, 0.6], dtype=torch.float64))
        >>> fresh = torch.zeros(2, dtype=torch.float64)
        >>> coder.choose(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), fresh).token
        tensor([0, 1])
        >>> coder.choose(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), fresh).token  # of 0.6 and 0.2
        tensor([1, 0])
    """

    def __init__(self, u: Tensor) -> None:
        self.dtype = u.dtype
        # Spans are from here to its double. Floats have two bits more, so that the end of the last
        # piece, with the error of two roundings, is the span when rounded up.
        self._grid = 0.125 / torch.finfo(u.dtype).eps
        self._point = (u * self._grid).floor()
        self._span = torch.full_like(u, self._grid)

    @classmethod
    def resume(cls, point: Tensor, span: Tensor) -> "Coder":
        """The coder with the ``point`` and the ``span`` that another one had reached."""
        coder = cls(torch.zeros_like(point))
        coder._point, coder._span = point, span
        return coder

    @property
    def state(self) -> tuple[Tensor, Tensor]:
        """Point and span, ``[rows]`` each: all that ``resume`` needs."""
        return self._point, self._span

    def choose(self, probs: Tensor, fresh: Tensor) -> Choice:
        """Take the token at each point.

        Args:
            probs: ``[rows, vocabulary]``, non-negative, not necessarily normalised.
            fresh: ``[rows]`` uniforms in [0, 1), the source of new bits.
        """
        ends = probs.cumsum(-1, dtype=self.dtype)
        ends.mul_((self._span / ends[:, -1]).unsqueeze(-1))
        # A piece ends at the next integer, and that is above the point where the end itself is.
        token = torch.searchsorted(ends, self._point.unsqueeze(-1), right=True)
        token.clamp_max_(probs.shape[-1] - 1)
        upper = ends.gather(-1, token).ceil_().squeeze(-1)
        lower = ends.gather(-1, (token - 1).clamp_min_(0)).ceil_().squeeze(-1)
        token = token.squeeze(-1)
        # Cumulative sums on other devices are parallel, and may be a little out of order.
        lower = torch.minimum(lower.masked_fill_(token == 0, 0), self._point)
        upper = torch.maximum(torch.minimum(upper, self._span), self._point + 1)
        choice = Choice(token, lower, upper, self._span)
        self._zoom(lower, upper - lower, fresh)
        return choice

    def _zoom(self, lower: Tensor, width: Tensor, fresh: Tensor) -> None:
        """Make the chosen piece the new span."""
        self._span = torch.frexp(width).mantissa * (2 * self._grid)
        scale = self._span / width
        self._point = (self._point - lower) * scale + (fresh * scale).floor_()
