"""Base class of copulas."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from carms.copulas.hole import Hole
from carms.core.checks.options import whole_number
from carms.core.checks.tensors import (
    check_broadcast,
    check_device,
    check_float_dtype,
    check_floats,
    check_same_device,
    check_shape,
)
from carms.core.dtypes import computing_dtype, precise_dtype
from carms.core.pairs import take_pairs
from carms.core.random import inside_unit_interval, uniform
from carms.core.shown import described, shown_options

__all__ = ["Copula", "right_ends"]


class Copula(ABC):
    """``samples`` exchangeable uniforms per draw, with a known bivariate CDF.

    A copula of your own defines ``transform`` and ``joint``, and sets those of the attributes
    below that differ from their defaults.

    Args:
        samples: number of uniforms in a draw, at least 2.

    Examples:
        >>> class Antithetic(Copula):
        ...     hole, pair_power = Hole(), 1
        ...
        ...     def transform(self, uniforms):
        ...         return torch.stack((uniforms[0], 1 - uniforms[0]))
        ...
        ...     def joint(self, x, y):
        ...         return (x + y - 1).clamp_min(0)
        >>> Antithetic(samples=2).sample((3,)).sum(-1)
        tensor([1., 1., 1.])
    """

    hole: Hole | None = None
    """Where no two samples ever are; None if any two have positive density on all of the open unit
    square but its diagonal, so that any two categories can be drawn together in any order.
    """

    pair_power: float | None = None
    """The number ``m`` if ``max(0, a^(1/m) + b^(1/m) - 1)^m`` is the CDF, else None. It is N - 1
    for ``Dirichlet``, 1 for antithetic pairs and infinity for independent samples. The joint table
    of ``GumbelMax`` is known for these copulas.
    """

    cheap_lift: bool = False
    """Whether ``lift`` costs about as much as a few values of the CDF. It then accepts lengths in
    any precision, and ignores ``right``.
    """

    def __init__(self, samples: int) -> None:
        samples = whole_number("samples", samples)
        if samples < 2:
            raise ValueError(
                f"{type(self).__name__} couples at least 2 samples, got samples={samples}"
            )
        self.samples = samples

    @property
    def uniforms(self) -> int:
        """Number of independent uniforms that ``transform`` makes a draw of."""
        return self.samples

    @abstractmethod
    def transform(self, uniforms: Tensor) -> Tensor:
        """Make draws ``[samples, ...]`` of independent uniforms ``[self.uniforms, ...]``, which may
        be overwritten.
        """

    def sample(
        self,
        shape: Sequence[int],
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Draw ``[*shape, samples]`` uniforms, strictly inside (0, 1)."""
        shape = check_shape(shape)
        dtype = check_float_dtype(torch.get_default_dtype() if dtype is None else dtype)
        if device is not None:
            device = check_device(device)
        u = self.points_unchecked(shape, generator, dtype, device)
        return u.movedim(0, -1).contiguous()

    def points_unchecked(
        self,
        shape: Sequence[int],
        generator: torch.Generator | None,
        dtype: torch.dtype,
        device: torch.device | None,
    ) -> Tensor:
        """``sample`` for arguments that are known to be good, as ``[samples, *shape]``."""
        drawn = uniform((self.uniforms, *shape), generator, computing_dtype(dtype), device)
        return inside_unit_interval(self.transform(drawn).to(dtype))

    def cdf(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        """``P(u <= a, u' <= b)`` for two different samples ``u, u'`` of one draw.

        Args:
            a: a number, or a tensor of floats; what is below 0 or above 1 counts as 0 or 1.
            b: the same, of a shape that broadcasts with that of ``a``.

        Returns:
            In the higher precision of the two, where a number has double precision.
        """
        first = check_floats("a", _as_tensor(a, b))
        second = check_floats("b", _as_tensor(b, a))
        check_same_device("b", second, "a is", first)
        check_broadcast("a", first, "b", second)
        return self.cdf_unchecked(first, second)

    def cdf_unchecked(self, a: Tensor, b: Tensor) -> Tensor:
        """``cdf`` for tensors that are known to be good."""
        wide = [x.to(precise_dtype(x.device)).clamp(0, 1) for x in (a, b)]
        found = self.joint(*[self.coordinate(x) for x in wide])
        # Rounding must not make a probability of zero negative.
        return found.clamp_min(0).to(torch.promote_types(a.dtype, b.dtype))

    def coordinate(self, a: Tensor) -> Tensor:
        """The part of the CDF that depends on one argument alone, computed once per argument.

        Defaults to the argument itself.
        """
        return a

    @abstractmethod
    def joint(self, x: Tensor, y: Tensor) -> Tensor:
        """The CDF as a function of the ``coordinate`` of either argument."""

    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        """How much likelier than by chance two samples fall in two intervals.

        Defaults to differences of the CDF, which have few digits where intervals are short.

        Args:
            left: ``[K, ...]`` left ends of K intervals in [0, 1], disjoint or equal, in double
                precision.
            width: ``[K, ...]`` their positive lengths, in the same precision, or in any where
                ``cheap_lift``.
            right: ``[K, ...]`` their right ends, exactly 1 where nothing lies beyond. Defaults to
                ``left + width``.

        Returns:
            ``[K (K - 1) / 2, ...]``: for each pair of intervals the probability that one sample
            is in the first and another in the second, divided by the product of the lengths; of
            equal intervals, any positive number. A new tensor.
        """
        right = right_ends(left, width, right)
        low_a, low_b = take_pairs(self.coordinate(left))
        high_a, high_b = take_pairs(self.coordinate(right))
        mass = self.joint(high_a, high_b) - self.joint(high_a, low_b)
        mass = mass - (self.joint(low_a, high_b) - self.joint(low_a, low_b))
        width_a, width_b = take_pairs(width)
        info = torch.finfo(width.dtype)
        # Rounding leaves no digit of the rarest pairs: they get a mass of its size.
        found = mass.clamp_min(info.eps) / (width_a * width_b).clamp_min(info.tiny)
        return found + ((low_a == low_b) & (width_a == width_b))

    def __repr__(self) -> str:
        return described(type(self).__name__, shown_options(self, "samples"))


def right_ends(left: Tensor, width: Tensor, right: Tensor | None) -> Tensor:
    """Right ends as given to ``lift``, or ``left + width``, but not beyond 1 by rounding."""
    return (left + width).clamp_max(1) if right is None else right


def _as_tensor(value: object, other: object) -> object:
    """A number as a tensor beside the other argument, anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return value
    return torch.tensor(float(value), dtype=torch.float64, device=getattr(other, "device", None))
