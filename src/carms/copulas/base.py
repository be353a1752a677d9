"""What every copula can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from carms.core.checks.options import whole_number
from carms.core.checks.tensors import (
    check_broadcast,
    check_device,
    check_float_dtype,
    check_floats,
    check_place,
    check_shape,
)
from carms.core.dtypes import computing_dtype
from carms.core.random import inside_unit_interval, uniform

__all__ = ["Copula", "Uniforms"]

Uniforms = Callable[[int], Tensor]


class Copula(ABC):
    """``samples`` exchangeable uniforms per draw, with a known bivariate CDF.

    Args:
        samples: how many uniforms a draw has, at least 2.
    """

    cheap_lift: bool = False
    """Whether ``lift`` is as cheap as a few values of the CDF, takes lengths in any precision, and
    does not look at right ends.
    """

    def __init__(self, samples: int) -> None:
        samples = whole_number("samples", samples)
        if samples < 2:
            raise ValueError(
                f"{type(self).__name__} couples at least 2 samples, got samples={samples}"
            )
        self.samples = samples

    @property
    def full_support(self) -> bool:
        """Whether any two samples have positive density on all of the open unit square
        but its diagonal, so that any two categories can be drawn together in any order.
        """
        return True

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

        def uniforms(count: int) -> Tensor:
            return uniform((count, *shape), generator, computing_dtype(dtype), device)

        return inside_unit_interval(self._points(uniforms).to(dtype))

    @abstractmethod
    def _points(self, uniforms: Uniforms) -> Tensor:
        """``[samples, ...]`` made of ``uniforms(count)``, independent ``[count, ...]``."""

    def cdf(self, a: Tensor, b: Tensor) -> Tensor:
        """``P(u <= a, u' <= b)`` for two different samples ``u, u'`` of one draw.

        Args:
            a: floats of any shape; what is below 0 or above 1 counts as 0 or 1.
            b: the same, of a shape that broadcasts with that of ``a``.
        """
        for name, each in (("a", a), ("b", b)):
            if not isinstance(each, Tensor):
                raise TypeError(f"{name} must be a tensor, got {type(each).__name__}")
            check_floats(name, each)
        check_place("b", b, "a is", a)
        check_broadcast("a", a, "b", b)
        return self.cdf_unchecked(a, b)

    def cdf_unchecked(self, a: Tensor, b: Tensor) -> Tensor:
        """``cdf`` for tensors that are known to be good."""
        wide = [x.to(computing_dtype(x.dtype)).clamp(0, 1) for x in (a, b)]
        found = self._joint(*[self._coordinate(x) for x in wide])
        return found.to(torch.promote_types(a.dtype, b.dtype))

    def _coordinate(self, a: Tensor) -> Tensor:
        """The part of the CDF that depends on one argument alone, computed once per argument."""
        return a

    @abstractmethod
    def _joint(self, x: Tensor, y: Tensor) -> Tensor:
        """The CDF as a function of two coordinates."""

    @abstractmethod
    def lift(self, left: Tensor, width: Tensor, right: Tensor | None = None) -> Tensor:
        """How much likelier than by chance two samples fall in two intervals.

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
            equal intervals, any positive number.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(samples={self.samples})"
