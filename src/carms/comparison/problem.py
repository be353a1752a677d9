"""The problem on which estimators are compared."""

import math
from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor
from torch.distributions import Bernoulli

from carms.core.checks.samples import check_values
from carms.core.variables import Distribution, Variables
from carms.estimators import Estimator, make
from carms.estimators.base import Objective
from carms.estimators.exact import MAX_CONFIGURATIONS, Exact

__all__ = ["Problem"]

# Numbers in the one-hot samples of an enumeration, beyond which the bias is not worth its memory.
LARGEST_ENUMERATION = 1 << 26
# Configurations at which `f` is evaluated in one call.
LARGEST_PIECE = 1 << 10
# Configurations at which `f` is evaluated once more, to see whether it is random.
EVALUATED_AGAIN = 64
# Share of the largest value by which values of `f` at the same points may differ by rounding.
_ROUNDING = 1e-3


class Problem:
    """``f`` and its logits, ready for many gradients with respect to them.

    Attributes:
        random: whether ``exact_gradient`` found other values of ``f`` at the same points.
    """

    def __init__(
        self, f: Objective, given: Distribution, one_hot: bool, terms: Tensor | None
    ) -> None:
        self.f, self.one_hot, self.terms, self.random = f, one_hot, terms, False
        variables = Variables.of(given)
        groups = variables.groups or (variables,)
        self._binary = [group.binary for group in groups]
        self._leaves = [_leaf(group) for group in groups]
        _check_independent(self._leaves)
        own = tuple(
            Bernoulli(logits=leaf, validate_args=False) if binary else leaf
            for leaf, binary in zip(self._leaves, self._binary, strict=True)
        )
        self.variables: Distribution = own if variables.groups else own[0]
        self.logits = Variables.of(self.variables).logits

    def value(
        self, estimator: Estimator, generator: torch.Generator | None, f: Objective | None = None
    ) -> Tensor:
        """The estimate; ``f`` may be replaced by a function with the same values."""
        return estimator.expectation(
            f or self.f, self.variables, generator, one_hot=self.one_hot, terms=self.terms
        )

    def gradient(
        self, estimator: Estimator, generator: torch.Generator | None, f: Objective | None = None
    ) -> Tensor:
        """The estimated gradient of all logits, flat."""
        value = self.value(estimator, generator, f)
        # The graph of what `f` closes over is the user's: leave it usable.
        found = torch.autograd.grad(value.sum(), self._leaves, retain_graph=True)
        return torch.cat([each.flatten() for each in found])

    def differentiable(self) -> bool:
        """Whether ``f`` has slopes that autograd sees; the trial has a generator of its own."""
        own = torch.Generator(self.logits.device).manual_seed(0)
        try:
            self.gradient(make("carms-t", samples=2), own)
        except Exception:
            # Any other error will be raised by the other estimators too.
            return False
        return True

    def exact_gradient(self) -> Tensor | None:
        """The gradient by enumeration, or None where that is not feasible, or ``f`` is random."""
        count = math.prod(Variables.of(self.variables).categories)
        if count > MAX_CONFIGURATIONS or count * self.logits.numel() > LARGEST_ENUMERATION:
            return None
        gradient = self.gradient(Exact(), None, self._in_pieces)
        return None if self.random else gradient

    def _in_pieces(self, *seen: Tensor) -> Tensor:
        """Values of ``f``, which is never given more than a piece of the samples at once."""
        terms = None if self.terms is None else len(self.terms)
        values = list[Tensor]()
        for piece in zip(*(each.split(LARGEST_PIECE) for each in seen), strict=True):
            indices = self.as_indices(*piece)[..., :-1]
            # Copies, since `f` may write on its own.
            again = () if values else [each[:EVALUATED_AGAIN].clone() for each in piece]
            values.append(check_values(self.f(*piece), indices, terms))
            if again:
                self.random = self._differs(values[0][:EVALUATED_AGAIN], again)
        return torch.cat(values)

    def _differs(self, values: Tensor, seen: Sequence[Tensor]) -> bool:
        """Whether ``f`` now has other values at the points where it had these before."""
        # What `f` draws here is not missing later.
        with torch.random.fork_rng(), torch.no_grad():
            difference = self.f(*seen) - values
        return bool(difference.abs().max() > _ROUNDING * values.abs().max())

    def as_indices(self, *seen: Tensor) -> Tensor:
        """``[N, *batch, D + 1]`` from what ``f`` was given: categories, and a different number for
        every relaxed point, since no two of these are equal.
        """
        if not self.one_hot:
            return torch.nn.functional.pad(torch.cat(seen, -1), (0, 1))
        indices, soft = list[Tensor](), list[Tensor]()
        for z, binary in zip(seen, self._binary, strict=True):
            indices.append((z > 0.5).long() if binary else z.argmax(-1))
            soft.append((z % 1 != 0).any(-1) if binary else (z.amax(-1) < 1).any(-1))
        relaxed = torch.stack(soft).any(0)
        numbers = torch.arange(1, relaxed.numel() + 1, device=relaxed.device).view(relaxed.shape)
        return torch.cat((*indices, (relaxed * numbers).unsqueeze(-1)), -1)


def _leaf(group: Variables) -> Tensor:
    """The logits to differentiate with respect to; for a Bernoulli, the one logit of each bit."""
    own = group.logits
    if group.binary:
        # Not the `logits` of the distribution, which torch clamps and then remembers.
        own = (own[..., 1] - own[..., 0]).clamp_max(torch.finfo(own.dtype).max)
    return own if own.requires_grad else own.detach().clone().requires_grad_()


def _check_independent(leaves: Sequence[Tensor]) -> None:
    """Raise if a group of logits is computed from another one, or is the same tensor."""
    for source, result in permutations(range(len(leaves)), 2):
        found = torch.autograd.grad(
            leaves[result].sum(), leaves[source], retain_graph=True, allow_unused=True
        )
        if found[0] is not None:
            raise ValueError(
                f"group {result} of the logits depends on group {source}, so that the gradient of "
                f"group {source} contains that of group {result}: detach the groups to compare them"
            )
