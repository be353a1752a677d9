"""Base class of couplings."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from carms.copulas import Copula
from carms.core.checks.options import probability
from carms.core.checks.samples import check_categories, check_probs
from carms.core.checks.tensors import check_memory
from carms.core.dtypes import precise_dtype
from carms.core.pairs import check_pairs, pair_index
from carms.core.shown import described, shown_options
from carms.core.softmax import normalised
from carms.sampling.mixture import draw_mixed, mixed_lift

__all__ = ["Coupling", "Drawn", "chunk_length"]


class Drawn(ABC):
    """Samples of a coupling, and what the lift of their pairs is computed from.

    Attributes:
        indices: ``[K, *batch]``, the categories.
    """

    indices: Tensor

    @abstractmethod
    def lift(self) -> Tensor:
        """``P(i, j) / (p_i p_j)`` without epsilon, ``[K (K - 1) / 2, *batch]``, for all pairs of
        samples; any positive number within one category. A new tensor.
        """

    def table_lift(self) -> Tensor:
        """``lift`` for the joint table: normalised probabilities, full precision."""
        return self.lift()


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
        """Number of samples in a draw."""
        return self.copula.samples

    def sample(self, probs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw ``[samples, *batch]`` category indices from ``probs [*batch, C]``."""
        return self.sample_unchecked(check_probs(probs), generator)

    def sample_unchecked(self, probs: Tensor, generator: torch.Generator | None) -> Tensor:
        """``sample`` for probabilities that are known to be good; computes no pair ratio."""
        return self._draw(probs, generator).indices

    def pmf(self, probs: Tensor) -> Tensor:
        """The joint table ``[*batch, C, C]`` of any two samples of a draw, in double precision."""
        probs = check_probs(probs)
        p = normalised(probs)
        check_memory("joint tables", (*p.shape, p.shape[-1]), 4 * p.itemsize, p.device)
        product = p.unsqueeze(-1) * p.unsqueeze(-2)
        first, second = pair_index(p.shape[-1], p.device)
        categories = torch.arange(p.shape[-1], device=p.device).expand(p.shape)
        of_all = self._from_indices(p, categories.movedim(-1, 0)).table_lift()
        lift = torch.zeros_like(product)
        lift[..., first, second] = mixed_lift(of_all, self.epsilon).movedim(0, -1)
        # Where a probability is zero, a lift is 0 / 0.
        table = torch.where(product > 0, product * (lift + lift.mT), 0)
        table = table + torch.diag_embed(p - table.sum(-1))
        return table.clamp_min_(0)  # rounding must not make a probability of zero negative

    def pair_ratio(self, probs: Tensor, indices: Tensor) -> Tensor:
        """``p_i p_j / P(i, j)`` for the drawn pairs.

        A pair within one category gets any positive number: it has no effect on a gradient.

        Args:
            probs: ``[*batch, C]``.
            indices: ``[N, *batch]`` categories, from ``sample``. One of probability zero is never
                drawn, and refused.

        Returns:
            ``[N (N - 1) / 2, *batch]`` in the precision of ``probs``, but at least single; pairs in
            the order of ``torch.triu_indices(N, N, 1)``.
        """
        probs = check_probs(probs)
        indices = check_categories(indices, probs)
        self._check_ratios(probs.shape[-1])
        check_pairs(len(indices), probs.shape[:-1], probs.device)
        return self._ratio(self._from_indices(probs, indices), probs.dtype)

    def draw(
        self, probs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """``sample`` and its ``pair_ratio`` at once, sharing their work."""
        return self.draw_unchecked(check_probs(probs), generator)

    def draw_unchecked(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """``draw`` for probabilities that are known to be good."""
        self._check_ratios(probs.shape[-1])
        check_pairs(self.samples, probs.shape[:-1], probs.device)
        drawn = self._draw(probs, generator)
        return drawn.indices, self._ratio(drawn, probs.dtype)

    def _ratio(self, drawn: Drawn, dtype: torch.dtype) -> Tensor:
        return mixed_lift(drawn.lift(), self.epsilon).reciprocal_().to(dtype)

    @abstractmethod
    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> Drawn:
        """Draw ``samples`` categories from ``probs [*batch, C]``."""

    @abstractmethod
    def _from_indices(self, probs: Tensor, indices: Tensor) -> Drawn:
        """Take the categories ``indices [K, *batch]`` as if they had been drawn."""

    def _check_ratios(self, categories: int) -> None:  # noqa: B027
        """Raise if there are no ratios: if some pair of categories can never be drawn, or if the
        joint table is not known.
        """

    def _uniforms(
        self,
        shape: Sequence[int],
        switch_shape: Sequence[int],
        probs: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        """``[N, *shape]`` from the copula, independent with probability epsilon, for which there is
        a switch of a shape that broadcasts to ``shape``.
        """
        dtype = precise_dtype(probs.device)
        u = self.copula.points_unchecked(shape, generator, dtype, probs.device)
        return draw_mixed(u, switch_shape, self.epsilon, generator) if self.epsilon else u

    def __repr__(self) -> str:
        return described(type(self).__name__, shown_options(self, "copula"))


def chunk_length(total: int, wanted: int) -> int:
    """How many variables to work on at a time; all of them for the compiler, which fuses anyway."""
    return max(1, total if torch.compiler.is_compiling() else wanted)
