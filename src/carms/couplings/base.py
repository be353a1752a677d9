"""What every coupling can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.checks.options import probability
from carms.core.checks.samples import check_categories, check_probs
from carms.core.checks.tensors import check_memory
from carms.core.dtypes import precise_dtype
from carms.core.pairs import check_pairs, pair_index
from carms.core.random import uniform

__all__ = ["Coupling", "chunk_length"]


class Coupling(ABC):
    """N exchangeable categorical samples with given marginals, and the joint table of any two.

    Args:
        copula: the source of correlated uniforms; it fixes the number of samples.
        epsilon: with this probability a whole draw is independent instead. It bounds every pair
            ratio by ``1 / epsilon`` and biases nothing: the table knows of it.
    """

    exact = True
    """Whether the pair ratios are those of the true joint table."""

    def __init__(self, copula: Copula, epsilon: float = 0.0) -> None:
        if not isinstance(copula, Copula):
            raise TypeError(f"copula must be a Copula such as Circular(samples=8), got {copula!r}")
        self.copula = copula
        self.epsilon = probability("epsilon", epsilon)

    @property
    def samples(self) -> int:
        return self.copula.samples

    def sample(self, probs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw ``[samples, *batch]`` category indices from ``probs [*batch, C]``."""
        return self.sample_unchecked(check_probs(probs), generator)

    def sample_unchecked(self, probs: Tensor, generator: torch.Generator | None) -> Tensor:
        """``sample`` for probabilities that are known to be good; computes no pair ratio."""
        return self._draw(probs, generator)[0]

    def pmf(self, probs: Tensor) -> Tensor:
        """The joint table ``[*batch, C, C]`` of any two samples of one draw."""
        probs = check_probs(probs)
        p = probs.to(precise_dtype(probs.device))
        check_memory("joint tables", (*p.shape, p.shape[-1]), 4 * p.itemsize, p.device)
        p = p / p.sum(-1, keepdim=True)
        product = p.unsqueeze(-1) * p.unsqueeze(-2)
        first, second = pair_index(p.shape[-1], p.device)
        lift = torch.zeros_like(product)
        lift[..., first, second] = self._with_epsilon(self._lift_of_all(p)).movedim(0, -1)
        # Where a probability is zero, a lift is 0 / 0.
        table = torch.where(product > 0, product * (lift + lift.mT), 0)
        return table + torch.diag_embed(p - table.sum(-1))

    def pair_ratio(self, probs: Tensor, indices: Tensor) -> Tensor:
        """``p_i p_j / P(i, j)`` for the drawn pairs.

        A pair within one category gets any positive number: it has no effect on a gradient.

        Args:
            probs: ``[*batch, C]``.
            indices: ``[N, *batch]`` categories, from ``sample``. One of probability zero is never
                drawn, and refused.

        Returns:
            ``[N (N - 1) / 2, *batch]`` in the precision of ``probs``, pairs in the order of
            ``torch.triu_indices(N, N, 1)``.
        """
        probs = check_probs(probs)
        indices = check_categories(indices, probs)
        self._check_reachable(probs.shape[-1])
        check_pairs(len(indices), probs.shape[:-1], probs.device)
        return self._with_epsilon(self._lift(probs, indices)).reciprocal().to(probs.dtype)

    def draw(
        self, probs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """``sample`` and its ``pair_ratio`` at once, sharing their work."""
        return self.draw_unchecked(check_probs(probs), generator)

    def draw_unchecked(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """``draw`` for probabilities that are known to be good."""
        self._check_reachable(probs.shape[-1])
        check_pairs(self.samples, probs.shape[:-1], probs.device)
        indices, lift = self._draw(probs, generator)
        return indices, self._with_epsilon(lift()).reciprocal_().to(probs.dtype)

    @abstractmethod
    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """Indices ``[N, *batch]``, and a function that gives what ``_lift`` says of them."""

    @abstractmethod
    def _lift(self, probs: Tensor, indices: Tensor) -> Tensor:
        """``P(i, j) / (p_i p_j)`` without epsilon, ``[K (K - 1) / 2, *batch]``, for all pairs of
        the categories ``indices [K, *batch]``; any positive number within one category.
        """

    def _lift_of_all(self, probs: Tensor) -> Tensor:
        """The ``_lift`` of all categories, to as many digits as there are."""
        categories = torch.arange(probs.shape[-1], device=probs.device)
        return self._lift(probs, categories.expand(probs.shape).movedim(-1, 0))

    def _check_reachable(self, categories: int) -> None:  # noqa: B027
        """Raise if some pair of categories can never be drawn: no ratio repairs that."""

    def _with_epsilon(self, lift: Tensor) -> Tensor:
        return lift if self.epsilon == 0 else (1 - self.epsilon) * lift + self.epsilon

    def _uniforms(
        self,
        shape: Sequence[int],
        switch: Sequence[int],
        probs: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        """``[N, *shape]`` from the copula, independent with probability epsilon where a switch,
        of a shape that broadcasts to ``shape``, says so.
        """
        where = precise_dtype(probs.device), probs.device
        u = self.copula.points_unchecked(shape, generator, *where)
        if self.epsilon == 0:
            return u
        free = uniform(u.shape, generator, *where)
        return torch.where(uniform(switch, generator, *where) < self.epsilon, free, u)

    def __repr__(self) -> str:
        mixture = f", epsilon={self.epsilon}" if self.epsilon else ""
        return f"{type(self).__name__}({self.copula}{mixture})"


def chunk_length(total: int, wanted: int) -> int:
    """How many variables to work on at a time; all of them for the compiler, which fuses anyway."""
    return max(1, total if torch.compiler.is_compiling() else wanted)
