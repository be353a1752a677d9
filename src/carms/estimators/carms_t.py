"""The antithetic trapezoid: CARMS that also looks at the slopes of ``f``."""

import torch
from torch import Tensor

from carms.copulas import Circular
from carms.core.backward import after_backward
from carms.core.checks.options import whole_number
from carms.core.checks.tensors import check_function
from carms.core.dtypes import plain_numerics, without_autocast
from carms.core.one_hot import one_hot as as_one_hot
from carms.core.probabilities import probabilities
from carms.core.surrogate import first_derivative_only, put_gradient, tied
from carms.core.transforms import no_transforms, wants_gradient
from carms.core.variables import Distribution, Variables
from carms.couplings import InverseCDF
from carms.estimators.base import Draw, Estimator, Objective, evaluate
from carms.estimators.families.cross_fit import Past
from carms.estimators.families.leaves import leaf
from carms.estimators.families.one_pass import OnePass, weighted_sum
from carms.estimators.families.slopes import check_dependence, slope
from carms.estimators.families.trapezoid import Memory, change_one, estimate, sources
from carms.estimators.registry import register
from carms.sampling.independent import independent_samples

__all__ = ["CarmsT"]

# Weight of all neighbours in the value: not zero, so that its backward pass brings their slopes;
# small, because they are less well balanced than the base samples.
_SHARE = 2.0**-10


@register("carms-t")
class CarmsT(Estimator):
    """CARMS-S with the slopes of a differentiable ``f``: unbiased, with far less variance.

    The gradient is a mean over pairs of categories of ``(f_i - f_c) (e_i - e_c) / 2``. The
    trapezoid rule replaces each difference of values by the mean of two slopes. Each slope needs
    one of the two points only, so this part is averaged over all coupled samples. What the rule
    leaves out is measured on K neighbours, samples with one variable changed.

    With ``h_n`` the slope of ``f`` at base sample n, ``v_k = z_n - z'_k`` a base sample
    less its neighbour k, and ``W`` the expected number of variables that a fresh draw would change:

    - ``T = mean_n 1/2 [(h_i - sum_c p_c h_c) e_i + p * (h - h_i)]`` for each variable, i its
      category in n;
    - ``F' = mean_k W/2 (f_n - f'_k) v_k``, and ``T' = mean_k W/2 [(h_n + h'_k) v_k / 2] v_k``;
    - ``A``, the estimate of ``carms-s`` on the base samples;
    - ``g = A + a (T - T') + b (F' - A)``.

    The scales ``a, b`` of an example are fitted on the other examples of the batch: near 1 where
    slopes predict ``f`` well, near 0 where they mislead (then it is ``carms-s`` on ``N - K``
    samples). They stay between -1 and 2. Without a batch they are fitted on past calls of the same
    object in ``train()`` mode, and are 1 for the first calls; an estimator that is given by name
    has no past. An example whose upstream gradient is 0 has no slopes to fit others on, except in
    the two-step form. With a single base sample ``A`` is ``F'``, and only ``a`` is left. Unbiased
    for any ``f`` that has finite slopes at its samples and computes each example independently of
    the others, since no scale depends on the draw that it multiplies. ``T`` alone is exact in
    expectation where ``f`` is quadratic in each variable. It makes N evaluations, neighbours
    included.

    What ``f`` computes may enter a loss only by way of what ``expectation`` returns, or the
    gradient is wrong: use the two-step form for losses on its activations. The backward pass of
    ``f`` must be linear, as that of a derivative is: gradients that are clipped inside ``f``, by a
    hook or a function of its own, bias the estimate. An ``f`` that computes in float16 inside
    should return float16 values: then its slopes have a backward pass of their own, in which
    nothing underflows.

    Args:
        samples: number of evaluations, at least 2, neighbours included.
        neighbours: number of neighbours, less than ``samples``; more of them pay where ``f`` is far
            from quadratic in each variable. Defaults to 2, or to 1 with fewer than 8 samples.

    References:
        Liu et al. (2023) [liu2023], for ``T`` on independent samples, there a biased estimate

    Examples:
        >>> import carms
        >>> def variance(name):
        ...     logits = torch.zeros(500, 6, 4, requires_grad=True)
        ...     f = lambda z: (z * torch.linspace(0, 1, 4)).sum((-2, -1)).sin()
        ...     carms.expectation(f, logits, name, samples=8).sum().backward()
        ...     return logits.grad.var(0).sum()
        >>> bool(variance("carms-t") < variance("carms-s") / 10)
        True
    """

    black_box = False
    least_samples = 2
    no_terms = "a neighbour changes one variable, so that all other terms cancel already"

    def __init__(self, samples: int = 8, neighbours: int | None = None) -> None:
        super().__init__(samples)
        if neighbours is None:
            neighbours = 1 if self.samples < 8 else 2
        neighbours = whole_number("neighbours", neighbours)
        if not 1 <= neighbours < self.samples:
            raise ValueError(
                "carms-t needs at least 1 neighbour and 1 other sample, and `samples` counts both: "
                f"got neighbours={neighbours} of samples={self.samples}"
            )
        self.neighbours = neighbours
        self.base = self.samples - neighbours
        self._coupling = InverseCDF(Circular(self.base)) if self.base > 1 else None
        self.past = Past(terms=1 if self._coupling is None else 2)

    def expectation(
        self,
        f: Objective,
        logits: Distribution,
        generator: torch.Generator | None = None,
        *,
        one_hot: bool = True,
        terms: Tensor | None = None,
    ) -> Tensor:
        check_function("f", f)
        variables = Variables.of(logits)
        if terms is not None or not self._one_pass(variables.logits):
            return super().expectation(f, logits, generator, one_hot=one_hot, terms=terms)
        self._check_one_hot(one_hot)
        indices, memory = self._draw(variables, generator)
        with plain_numerics(variables.logits):
            hard = as_one_hot(indices, variables.logits.shape[-1], variables.logits.dtype)
        with no_transforms():
            logits_of_pass = first_derivative_only(variables.logits)
            z, carrier = OnePass.apply(logits_of_pass, hard, self, self.past, *memory)  # type: ignore[no-untyped-call]
        draw = Draw(self, variables, indices, memory, differentiable=z)
        values = self._check_values(draw, evaluate(f, draw, one_hot), None)
        if values.dtype.itemsize < 4:
            return self.surrogate(draw, values)
        check_dependence(self, values, z)
        values, carrier = tied(values, variables.logits), first_derivative_only(carrier, values)
        return weighted_sum(values, carrier, memory.weights)

    def _one_pass(self, logits: Tensor) -> bool:
        """Whether the slopes can come from the backward pass of the value itself."""
        # In half precision they would underflow: they come multiplied by weights of about 2**-10.
        device = logits.device.type
        half = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device).itemsize < 4
        return wants_gradient(logits) and logits.dtype.itemsize >= 4 and not half

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        indices, memory = self._draw(variables, generator)
        hard = as_one_hot(indices, memory.probs.shape[-1], memory.probs.dtype)
        return Draw(self, variables, indices, memory, differentiable=leaf(hard, variables))

    def surrogate(self, draw: Draw[Memory], fz: Tensor, terms: Tensor | None = None) -> Tensor:
        values, memory = self._check_values(draw, fz, terms), draw.memory
        assert draw.differentiable is not None
        wide = values.to(torch.promote_types(values.dtype, memory.weights.dtype))
        value = (memory.weights * wide).sum(0)
        if wants_gradient(draw.variables.logits):
            with without_autocast(values):
                slopes = slope(self, values, draw.differentiable)
            with plain_numerics(values):
                centred = (wide - wide[0]).to(memory.probs.dtype)
                gradient, moments = estimate(
                    self, self.past, memory, draw.differentiable, centred, slopes
                )
            value = put_gradient(value, draw.variables.logits, gradient)
            after_backward(value, lambda: self.past.add(moments))
        return value.to(values.dtype)

    def _draw(
        self, variables: Variables, generator: torch.Generator | None
    ) -> tuple[Tensor, Memory]:
        if wants_gradient(variables.logits):
            self.past.warn_if_blind(self, variables.logits)
        with plain_numerics(variables.logits), no_transforms():
            probs = probabilities(variables.logits)
            if self._coupling is None:
                indices = independent_samples(probs, 1, generator)
                ratio = probs.new_ones(0, *probs.shape[:-1])
            else:
                indices, ratio = self._coupling.draw_unchecked(probs, generator)
            # In the order of samples and slopes, with which they are multiplied.
            probs = probs.contiguous()
            origins = sources(indices, self.base, self.neighbours)
            changed = change_one(probs, origins, generator)
            weights = self._weights(changed.accepted.to(probs.dtype))
            reach, past = changed.reach.to(probs.dtype), self.past.recall(probs)
            memory = Memory(probs, ratio, weights, reach, past)
            return torch.cat((indices, changed.indices)), memory

    def _weights(self, accepted: Tensor) -> Tensor:
        """Weights ``[N, *batch]`` of the evaluations in the value.

        Each base sample has ``(1 - _SHARE) / B``. Each neighbour has ``accepted`` times
        ``_SHARE / K``, and its base sample the rest of that.
        """
        each, share = (1 - _SHARE) / self.base, _SHARE / self.neighbours
        weights = accepted.new_full((self.samples, *accepted.shape[1:]), each)
        torch.mul(accepted, share, out=weights[self.base :])
        for start in range(0, self.neighbours, self.base):
            rest = accepted[start : start + self.base]
            weights[: len(rest)].add_(share).sub_(rest, alpha=share)
        return weights
