"""The contract of all estimators of subsets and rankings."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from carms.core.checks.options import check_flag, enough_samples, whole_number
from carms.core.checks.samples import (
    check_draw,
    check_graph,
    check_unchanged,
    check_values,
    fingerprint,
)
from carms.core.checks.tensors import check_floats, check_function, holds
from carms.core.derivatives import differentiated
from carms.core.dtypes import computing_dtype, plain_numerics, precise_dtype
from carms.core.probabilities import probabilities
from carms.core.shown import described, shown_options
from carms.core.surrogate import put_gradient
from carms.sampling.gumbel import exponentials, perturbed
from carms.subsets.score import score

__all__ = ["Draw", "ScoreFunction", "SubsetEstimator", "Weighting", "indicator", "race"]


@dataclass(frozen=True, eq=False)
class Draw:
    """Subsets or rankings on which ``f`` is to be evaluated.

    Attributes:
        maker: the estimator that drew them.
        logits: ``[*batch, n]``, what they were drawn from.
        drawn: ``[N, *batch, k]`` items; users get copies of them as ``items``.
        memory: what the maker has to remember beside the items.
        differentiable: ``[N, *batch, n]``, what ``f`` sees where it is differentiated.
        before: the ``fingerprint`` of the logits from which they were drawn.
    """

    maker: "SubsetEstimator"
    logits: Tensor
    drawn: Tensor
    memory: Any = None
    differentiable: Tensor | None = None
    before: int | Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", fingerprint(self.logits))

    @property
    def items(self) -> Tensor:
        """The items ``[N, *batch, k]``, in order of rank if their order counts: a copy."""
        return self.drawn.clone()

    @property
    def z(self) -> Tensor:
        """What ``f`` sees: ``[N, *batch, n]`` with k ones in the dtype of the logits, or the
        ``items`` if their order counts. A copy, since ``f`` may write on it.
        """
        if self.differentiable is not None:
            return self.differentiable.clone()
        return self.items if self.maker.ordered else indicator(self.drawn, self.logits)

    def __repr__(self) -> str:
        return f"Draw({self.maker}, items={list(self.drawn.shape)})"


class SubsetEstimator(torch.nn.Module, ABC):
    """Estimate ``E f`` for k of n items without replacement, and in the backward pass its gradient.

    Args:
        size: number of items to choose, k.
        samples: number of evaluations of ``f``, N.
        ordered: whether ``f`` takes the items in order of rank rather than the subset.

    Attributes:
        name: what ``carms.subsets.make`` calls it.
        unbiased: whether the expectation of the gradient is the gradient.
        black_box: whether ``f`` may be anything that returns a number.
        least_samples: the smallest number of samples.
    """

    name: ClassVar[str] = ""
    unbiased: bool = True
    black_box: bool = True
    least_samples: int = 2

    def __init__(self, size: int, samples: int = 8, ordered: bool = False) -> None:
        super().__init__()
        self.size = whole_number("size", size)
        self.samples = enough_samples(self._title(), samples, self.least_samples)
        check_flag("ordered", ordered)
        self.ordered = ordered
        if self.size < 1:
            raise ValueError(f"size is the number of items to choose, at least 1, got {size}")
        if ordered and not self.black_box:
            raise ValueError(
                f"{self._title()} differentiates f with respect to the subset: "
                "ordered=True, which gives f the items themselves, is not possible"
            )

    def expectation(
        self,
        f: Callable[[Tensor], Tensor],
        logits: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """An estimate ``[*batch]`` of ``E f`` that can be differentiated.

        Args:
            f: takes subsets ``[N, *batch, n]`` of zeros and k ones, or items ``[N, *batch, k]``
                in order of rank, and returns ``[N, *batch]``.
            logits: ``[*batch, n]``.
            generator: source of randomness; the global one if None.
        """
        check_function("f", f)
        draw = self.sample(logits, generator)
        return self.surrogate(draw, f(draw.z))

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        """Do what ``expectation`` does, so that an estimator can be called like any module."""
        return self.expectation(*arguments, **options)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Draw:
        """Draw the points at which to evaluate ``f``: the first half of ``expectation``."""
        _check_logits(logits, self.size)
        return self._sample(logits, generator)

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        """Make value and gradients from values ``fz [N, *batch]``: the second half."""
        check_draw(self, draw, Draw)
        check_unchanged(draw.logits, draw.before)
        check_graph(self, draw.logits, draw.drawn, draw.differentiable)
        return self._surrogate(draw, check_values(fz, draw.drawn, variables=False))

    @abstractmethod
    def _sample(self, logits: Tensor, generator: torch.Generator | None) -> Draw:
        """The draw, from logits that were checked."""

    @abstractmethod
    def _surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        """``surrogate`` for values that were checked."""

    @classmethod
    def _title(cls) -> str:
        return cls.name or cls.__name__

    def __repr__(self) -> str:
        return described(self._title(), shown_options(self, "size", "samples"))


class Weighting(ABC):
    """What a draw of a ``ScoreFunction`` remembers: how its samples are weighted."""

    @abstractmethod
    def weights(self, fz: Tensor) -> Tensor:
        """Weights ``[N, *batch]`` of the scores, from values of ``f`` of the same shape."""

    def value(self, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


class ScoreFunction(SubsetEstimator):
    """Estimators ``sum_n w_n d log p(S_n) / d logits`` whose weights ``w`` are made of ``f``.

    Where the order does not count, ``p`` is the probability of the subset: the derivative is
    averaged over all orders in which the subset can be drawn.
    """

    def _sample(self, logits: Tensor, generator: torch.Generator | None) -> Draw:
        with plain_numerics(logits):
            wide = logits.detach().to(computing_dtype(logits.dtype))
            return Draw(self, logits, *self._draw(wide, generator))

    def _surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        weighting: Weighting = draw.memory
        value = weighting.value(fz)
        if not differentiated(draw.logits):
            return value
        with plain_numerics(fz):
            wide = draw.logits.detach().to(precise_dtype(fz.device))
            scores = score(wide, draw.drawn, self.ordered)
            weights = weighting.weights(fz.detach().to(wide.dtype))
            gradient = (weights.unsqueeze(-1) * scores).sum(0)
        return put_gradient(value, draw.logits.unsqueeze(-2), gradient.unsqueeze(-2))

    @abstractmethod
    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Weighting]:
        """Items ``[N, *batch, k]`` and their weighting, from logits in float32 or more."""


def indicator(items: Tensor, logits: Tensor) -> Tensor:
    """Subsets ``[..., n]`` of zeros and ones from their items ``[..., k]``."""
    zeros = torch.zeros(1, dtype=logits.dtype, device=logits.device)
    return zeros.expand(*items.shape[:-1], logits.shape[-1]).scatter(-1, items, 1)


def race(logits: Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw independent rankings ``[*batch, k]`` of the first k items by Gumbel top-k."""
    # In single precision, large logits swallow the noise.
    logits = logits.to(precise_dtype(logits.device))
    times = exponentials(tuple(logits.shape), logits, generator)
    return perturbed(logits, times).topk(size, -1).indices


def _check_logits(given: object, size: int) -> None:
    logits = check_floats("logits", given, "[*batch, n]")
    if logits.ndim < 1 or not logits.shape[-1]:
        raise ValueError(
            f"logits must be [*batch, n], one for each of n items, got shape {list(logits.shape)}"
        )
    if size > logits.shape[-1]:
        raise ValueError(f"size={size} items cannot be chosen of n = {logits.shape[-1]}")
    probabilities(logits)  # raises on NaN and +inf
    if holds(lambda: ((logits > -torch.inf).sum(-1) < size).any()):
        fewest = int((logits > -torch.inf).sum(-1).min())
        raise ValueError(
            f"size={size} items cannot be chosen where all but {fewest} of the n = "
            f"{logits.shape[-1]} have a logit of -inf"
        )
