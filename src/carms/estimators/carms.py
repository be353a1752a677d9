"""CARMS: leave-one-out REINFORCE on correlated samples, corrected pair by pair."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.copulas import Circular, Copula, Dirichlet
from carms.copulas.names import make_copula
from carms.core.checks.options import whole_number
from carms.core.pairs import pair_weights
from carms.couplings import BiasedGumbelMax, Coupling, GumbelMax, InverseCDF
from carms.couplings.inverse_cdf import Orderings
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register

__all__ = ["Carms", "CarmsG", "CarmsGBiased", "CarmsI", "CarmsS", "Carts"]


class Memory(NamedTuple):
    """What a draw of ``carms`` remembers beside its samples.

    Attributes:
        ratio: of the drawn pairs, ``[N (N - 1) / 2, groups, *batch, D]``.
    """

    ratio: Tensor


class Carms(ScoreFunction):
    """CARMS on any coupling, made unbiased by the ratio of each drawn pair.

    ``g = 1/(N(N-1)) sum_{n != m} 1/2 (f_n - f_m) (z_n - z_m) R[z_n, z_m]`` with
    ``R[i, j] = p_i p_j / P(i, j)``. Unbiased for any ``f`` and any coupling that can draw every
    pair of categories. N evaluations.

    Args:
        coupling: draws the samples and knows their joint table.
        groups: number of independent draws of the coupling, whose gradients are averaged.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms]

    Examples:
        >>> estimator = Carms(GumbelMax(Dirichlet(3)), groups=2)
        >>> estimator.sample(torch.zeros(5, 4)).z.shape
        torch.Size([6, 5, 4])
    """

    balanced = True
    least_samples = 2

    def __init__(self, coupling: Coupling, groups: int = 1) -> None:
        if not isinstance(coupling, Coupling):
            raise TypeError(
                "coupling must be a Coupling such as InverseCDF(Circular(samples=8)), "
                f"got {coupling!r}"
            )
        groups = whole_number("groups", groups, least=1)
        super().__init__(coupling.samples * groups)
        self.coupling = coupling
        self.groups = groups
        self.unbiased = coupling.exact

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        repeated = probs.expand(self.groups, *probs.shape)
        indices, ratio = self.coupling.draw_unchecked(repeated, generator)
        return indices.flatten(0, 1), Memory(ratio)

    def weights(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        values = fz.unflatten(0, (self.coupling.samples, self.groups))
        return pair_weights(values, draw.memory.ratio, self.groups).flatten(0, 1)


@register("carms-s")
class CarmsS(Carms):
    """CARMS with the circular stratified copula under inverse-CDF sampling, the default.

    Samples are one point in each of N strata of a ring that is turned at random. They spread over
    the categories, and any two categories can be drawn together in any order. Every pair ratio has
    a closed form. It gains most with few variables and about as many samples as categories.
    Unbiased, for any ``f``, N evaluations.

    Args:
        samples: number of samples, at least 2.
        orderings: ``"auto"`` for the categories in the order given; or the number of fixed orders,
            of which each variable draws one. 4 is good where N is well below C.
        epsilon: probability that a whole draw is independent, which bounds every pair ratio by
            ``1 / epsilon``.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms], for all but the copula

    Examples:
        >>> import carms
        >>> draw = carms.make("carms-s", samples=8).sample(torch.zeros(1000, 1, 2))
        >>> draw.indices.sum(0).unique()  # eight fair coins show 3 to 5 heads
        tensor([3, 4, 5])
    """

    def __init__(
        self, samples: int = 8, orderings: Orderings = "auto", epsilon: float = 0.0
    ) -> None:
        copula = Circular(self._check_samples(samples))
        super().__init__(InverseCDF(copula, orderings, epsilon))
        self.orderings, self.epsilon = orderings, epsilon


@register("carms-i")
class CarmsI(Carms):
    """CARMS-I of the paper: inverse-CDF sampling over all orderings of the categories.

    The Dirichlet copula never draws two points near zero together. Averaged over orderings, every
    pair of categories can be drawn all the same. Unbiased, for any ``f``, N evaluations. Every pair
    ratio is an average over ``C (C - 1) / 2`` orderings.

    Args:
        samples: number of samples, at least 2. Defaults to 8, or to ``copula.samples`` if a Copula
            is given.
        copula: an object of ``carms.copulas``, or one of ``"dirichlet"``,
            ``"dirichlet-reflected"``, ``"gaussian"``, ``"stratified"``, ``"circular"`` and
            ``"independent"``.
        orderings: ``"all"``, ``"largest-first"`` where that is enough, or a number; ``"auto"`` is
            what the copula needs.
        epsilon: probability that a whole draw is independent.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms]

    Examples:
        >>> import carms
        >>> first, second = carms.make("carms-i", samples=2).sample(torch.zeros(100, 1, 4)).indices
        >>> bool((first != second).all())  # two of four equally likely categories never agree
        True
        >>> carms.make("carms-i", samples=4, copula="gaussian")
        carms-i(samples=4, copula='gaussian')
    """

    def __init__(
        self,
        samples: int | None = None,
        copula: str | Copula = "dirichlet",
        orderings: Orderings = "auto",
        epsilon: float = 0.0,
    ) -> None:
        if samples is not None:
            samples = self._check_samples(samples)
        super().__init__(InverseCDF(make_copula(copula, samples), orderings, epsilon))
        self.copula, self.orderings, self.epsilon = copula, orderings, epsilon


@register("carms-g")
class CarmsG(Carms):
    """CARMS-G of the paper with its joint table by quadrature instead of Monte Carlo: unbiased.

    Gumbel-max sampling whose random numbers are correlated, category by category. Unbiased to the
    error of the quadrature, 1e-5 of a ratio in single and 1e-7 in double precision; for any ``f``,
    N evaluations.

    Args:
        samples: number of samples, at least 2.
        epsilon: probability that a whole draw is independent.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms]

    Examples:
        >>> import carms
        >>> probs = torch.tensor([0.5, 0.3, 0.2])
        >>> table = carms.make("carms-g", samples=3).coupling.pmf(probs)  # of any two samples
        >>> table.diagonal() < probs**2  # equal less often than independent ones
        tensor([True, True, True])
    """

    def __init__(self, samples: int = 8, epsilon: float = 0.0) -> None:
        super().__init__(GumbelMax(Dirichlet(self._check_samples(samples)), epsilon))
        self.epsilon = epsilon


@register("carms-g-biased")
class CarmsGBiased(Carms):
    """CARMS-G as printed: its joint table is estimated from samples, and the gradient is biased.

    Kept for comparison. For any ``f``, N evaluations.

    Args:
        samples: number of samples, at least 2.
        extra: number of further samples for the table alone; the more, the smaller the bias.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms]

    Examples:
        >>> import carms
        >>> estimator = carms.make("carms-g-biased", samples=4, extra=100)
        >>> estimator.unbiased, len(estimator.sample(torch.zeros(2, 3)).indices)  # f sees four
        (False, 4)
    """

    unbiased = False

    def __init__(self, samples: int = 8, extra: int = 0) -> None:
        super().__init__(BiasedGumbelMax(Dirichlet(self._check_samples(samples)), extra))
        self.extra = extra


@register("carts")
class Carts(Carms):
    """CARMS-I on antithetic pairs, ``samples / 2`` of them.

    Unbiased, for any ``f``, N evaluations. Pairs are not compared with each other, so with more
    than two samples ``carms-i`` is better.

    Args:
        samples: number of samples, even.
        epsilon: probability that a pair is independent.

    References:
        Dimitriev and Zhou (2021) [dimitriev2021carms]

    Examples:
        >>> import carms
        >>> draw = carms.make("carts", samples=6).sample(torch.zeros(4, 2))
        >>> first, second = draw.indices.unflatten(0, (2, 3))  # three pairs of four fair coins
        >>> bool((first != second).all())
        True
    """

    paired = True

    def __init__(self, samples: int = 8, epsilon: float = 0.0) -> None:
        pairs = self._check_samples(samples) // 2
        super().__init__(InverseCDF(Dirichlet(2), "all", epsilon), groups=pairs)
        self.epsilon = epsilon
