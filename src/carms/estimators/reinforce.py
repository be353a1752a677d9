"""Plain REINFORCE."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from carms.core.backward import after_backward
from carms.core.checks.options import real_number
from carms.core.dtypes import computing_dtype, plain_numerics, precise_dtype
from carms.estimators.base import Draw
from carms.estimators.families.score_function import ScoreFunction
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["Reinforce"]


class Memory(NamedTuple):
    """What a draw of ``reinforce`` remembers beside its samples.

    Attributes:
        baseline: a number, fixed before the samples were drawn.
    """

    baseline: Tensor


@register("reinforce")
class Reinforce(ScoreFunction):
    """The score function times ``f`` minus a baseline: ``1/N sum_n (f_n - b) (z_n - p)``.

    Unbiased, for any ``f``, N evaluations. A running mean is a state: make the estimator once and
    keep it. It is the mean of calls before the draw only, so the gradient stays unbiased. It is
    updated by the backward passes of calls in ``train()`` mode; its buffers are part of
    ``state_dict()``.

    Args:
        samples: number of independent samples, at least 1.
        baseline: None, a constant, or ``"running-mean"``.
        decay: share of the running mean that a call keeps.

    References:
        Williams (1992) [williams1992]

    Examples:
        >>> import carms
        >>> estimator = carms.make("reinforce", samples=1, baseline="running-mean")  # once
        >>> logits = torch.zeros(3, 4, requires_grad=True)
        >>> for _ in range(2):
        ...     value = estimator.expectation(lambda z: 5 + 0 * z.sum((-2, -1)), logits)
        ...     (gradient,) = torch.autograd.grad(value, logits)
        >>> bool(gradient.abs().max() < 1e-5)  # it knows the 5 by now
        True
    """

    centred = False
    _total: Tensor
    _weight: Tensor

    def __init__(
        self,
        samples: int = 8,
        baseline: float | Literal["running-mean"] | None = None,
        decay: float = 0.9,
    ) -> None:
        super().__init__(samples)
        if isinstance(baseline, str) and baseline != "running-mean":
            raise ValueError(f"baseline is None, a number or 'running-mean', got {baseline!r}")
        if baseline is not None and not isinstance(baseline, str):
            baseline = real_number("baseline", baseline)
        self.baseline = baseline
        self.decay = real_number("decay", decay)
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {decay}")
        self.stateful = isinstance(baseline, str)
        if self.stateful:
            self.no_terms = "its running mean is that of the whole sum, and no variable's own"
        self.register_buffer("_total", torch.zeros(()))
        self.register_buffer("_weight", torch.zeros(()))

    def _draw(self, probs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Memory]:
        if isinstance(self.baseline, str):
            baseline = self._total / self._weight.clamp_min(torch.finfo(self._weight.dtype).tiny)
        else:
            precise = precise_dtype(probs.device)
            baseline = probs.new_full((), self.baseline or 0.0, dtype=precise)
        return independent_samples(probs, self.samples, generator), Memory(baseline)

    def weights(self, draw: Draw[Memory], fz: Tensor) -> Tensor:
        return (fz - draw.memory.baseline.to(fz)) / self.samples

    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        value = super().surrogate(draw, fz, terms)
        if self.stateful and self.training and torch.is_grad_enabled() and fz.numel():
            with plain_numerics(fz):
                mean = fz.to(computing_dtype(fz.dtype)).mean()
            after_backward(value, lambda: self._remember(mean))
        return value

    @torch.no_grad()
    def _remember(self, mean: Tensor) -> None:
        """Make the mean value of a call part of the baseline of the next ones."""
        total = self._total.lerp(mean.to(self._total), 1 - self.decay)
        weight = self._weight.lerp(torch.ones_like(self._weight), 1 - self.decay)
        if torch.compiler.is_compiling():
            # Not in place: the backward pass of an earlier call may need what they were.
            self._total, self._weight = total, weight
        else:
            self._total.copy_(total)
            self._weight.copy_(weight)
