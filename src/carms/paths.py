"""Joint samples through several layers, each of which may depend on those before it."""

# Annotations stay text, so that `help` shows `Name` and not all names.
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from carms.core.checks.options import check_flag
from carms.core.checks.samples import check_unchanged, check_values
from carms.core.derivatives import differentiated
from carms.core.dtypes import computing_dtype, plain_numerics
from carms.core.means import less_mean
from carms.core.probabilities import probabilities
from carms.core.surrogate import (
    first_derivative_only,
    put_scores,
    tied,
    with_gradient_of,
)
from carms.core.variables import Distribution, Variables
from carms.estimators import Estimator, Name, available, find
from carms.estimators.base import Draw
from carms.estimators.registry import resolve
from carms.sampling.independent import independent_samples

__all__ = ["Paths"]


class Paths:
    """N joint samples of all layers of a model, at N evaluations of what comes after them.

    A layer whose logits are shared by the paths, as those of the first layer are, is drawn by the
    estimator and gets its gradient, with the value of the whole path as ``f``. A layer whose logits
    depend on the path is drawn independently given the path, and gets leave-one-out REINFORCE on
    the values of the paths. Both gradients are unbiased. A `Paths` object is used for one
    expectation.

    Args:
        samples: number of paths N, of an estimator given by name. Defaults to 8.
        estimator: ``loorf`` or another estimator that compares N samples with each other, such as
            ``carms-s`` and ``carms-i``; a name, or an object from [`carms.make`][], which has its
            own samples and options.
        generator: source of randomness; the global one if None.
        options: further options of the estimator.

    Examples:
        >>> first, layer = torch.zeros(3, 4, requires_grad=True), torch.nn.Linear(4, 5)
        >>> paths = Paths(samples=8)
        >>> z1 = paths.sample(first)  # 3 variables of 4 categories
        >>> z2 = paths.sample(layer(z1))  # 3 variables of 5, given z1
        >>> z1.shape, z2.shape
        (torch.Size([8, 3, 4]), torch.Size([8, 3, 5]))
        >>> paths.expectation(z2[..., 0].sum(-1)).backward()
        >>> first.grad.shape, layer.weight.grad.shape
        (torch.Size([3, 4]), torch.Size([5, 4]))
    """

    def __init__(
        self,
        samples: int | None = None,
        estimator: Name | str | Estimator = "carms-s",
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        made = resolve(estimator, samples, options)
        if not made.balanced:
            suitable = [name for name in available() if find(name).balanced]
            raise ValueError(
                "the estimator of paths must compare its samples with each other, as "
                f"{', '.join(suitable)} do, got {estimator}"
            )
        self.samples = made.samples
        self._estimator = made
        self._generator = generator
        self._layers: list[Draw] = []
        self._finished = False

    def sample(self, logits: Distribution, *, one_hot: bool = True) -> Any:
        """Draw the next layer.

        Args:
            logits: ``[*batch, D, C]``, shared by all paths, or ``[N, *batch, D, C]``, one set for
                each path. Those of the first layer are shared, and fix the batch. D and C may
                differ between layers. Or a Categorical, OneHotCategorical or Bernoulli, or a tuple
                of groups.
            one_hot: False to return indices ``[N, *batch, D]``.

        Returns:
            One-hot ``[N, *batch, D, C]``; of a Bernoulli, zeros and ones ``[N, *batch, D]``; of a
            tuple of groups, a tuple of these.
        """
        if self._finished:
            raise RuntimeError("expectation was called already: make a new Paths for new samples")
        check_flag("one_hot", one_hot)
        variables = Variables.of(logits)
        draw = (
            self._draw_for_each_path(variables)
            if self._depends_on_path(variables.logits.shape)
            else self._estimator.sample(logits, self._generator)
        )
        self._layers.append(draw)
        return draw.z if one_hot else variables.indices(draw.indices)

    def expectation(self, values: Tensor) -> Tensor:
        """The mean ``[*batch]`` of values, whose backward pass has the gradients of all layers.

        The ordinary gradient goes to everything else that the values were made of.

        Args:
            values: ``f`` of each path, ``[N, *batch]``. A value may depend on its own path only.
        """
        if self._finished:
            raise RuntimeError("expectation was called already: make a new Paths for new values")
        if not self._layers:
            raise RuntimeError("there are no paths yet: call sample before expectation")
        values = check_values(values, self._layers[0].drawn)
        self._finished = True
        value = values.mean(0)
        if not any(differentiated(draw.variables.logits) for draw in self._layers):
            return value
        fixed = values.detach()
        for draw in self._layers:
            check_unchanged(draw.variables.logits, draw.before)
            value = tied(value, draw.variables.logits)
            if draw.variables.logits.ndim == draw.drawn.ndim:  # shared: no dimension of samples
                term = self._estimator.surrogate(draw, fixed)
            else:
                term = self._leave_one_out(draw, fixed)
            value = with_gradient_of(value, first_derivative_only(term, values))
        return value

    def _depends_on_path(self, logits: torch.Size) -> bool:
        """Whether logits of this shape are one set for each path, or an error."""
        if not self._layers:
            return False
        paths = self._layers[0].drawn.shape[:-1]
        if logits[:-2] not in (paths, paths[1:]):
            shared, each = (", ".join(map(str, (*of, "D", "C"))) for of in (paths[1:], paths))
            raise ValueError(
                f"logits must be [*batch, D, C] = [{shared}], shared by the paths, or "
                f"[N, *batch, D, C] = [{each}], one set for each, got shape {list(logits)}"
            )
        return logits[:-2] == paths

    def _draw_for_each_path(self, variables: Variables) -> Draw:
        with plain_numerics(variables.logits):
            probs = probabilities(variables.logits)
            indices = independent_samples(probs, 1, self._generator).squeeze(0)
            return Draw(self._estimator, variables, indices, None)

    def _leave_one_out(self, draw: Draw, values: Tensor) -> Tensor:
        """``[*batch]``, whose gradient is that of leave-one-out REINFORCE.

        The logits differ between paths, so the normaliser of their softmax does not drop out.
        """
        logits = draw.variables.logits
        with plain_numerics(logits):
            wide = values.to(computing_dtype(values.dtype))
            weights = (less_mean(wide) / (self.samples - 1)).unsqueeze(-1)
        # Every path is one sample from logits of its own.
        indices, weights = draw.drawn.unsqueeze(0), weights.unsqueeze(0)
        return put_scores(torch.zeros_like(values), logits, indices, weights).sum(0)

    def __repr__(self) -> str:
        return f"Paths(samples={self.samples}, estimator={self._estimator})"
