"""The importance-weighted bound, which is not an expectation of one function."""

import math
from typing import Literal

import torch
from torch import Tensor

from carms.core.checks.options import check_choice, check_flag, enough_samples
from carms.core.checks.samples import check_unchanged, check_values
from carms.core.checks.tensors import check_function, check_memory
from carms.core.derivatives import differentiated
from carms.core.dtypes import computing_dtype, plain_numerics
from carms.core.surrogate import put_scores
from carms.core.variables import Distribution
from carms.estimators.base import Objective, evaluate
from carms.estimators.reinforce import Reinforce

__all__ = ["importance_bound"]


def importance_bound(
    log_weight: Objective,
    logits: Distribution,
    estimator: Literal["vimco", "leave-one-out", "reinforce"] = "vimco",
    samples: int = 8,
    generator: torch.Generator | None = None,
    *,
    one_hot: bool = True,
) -> Tensor:
    """Estimate ``E log mean_n w(z_n)`` of N independent samples, ready to be differentiated.

    With ``w = p(x, z) / q(z)`` this is the bound of an importance-weighted autoencoder. Its
    gradient is ``sum_n (L - L_n) grad log q(z_n)``, plus that of ``L`` through the weights
    themselves, which autograd sees. ``L_n`` may depend on the other samples only: ``"vimco"`` puts
    their geometric mean in the place of the n-th weight, ``"leave-one-out"`` takes the bound of the
    N - 1 others, ``"reinforce"`` nothing. All are unbiased for the gradient of the bound, for any
    finite log weight. N evaluations.

    Args:
        log_weight: takes samples ``[N, *batch, D, C]`` and returns ``[N, *batch]``.
        logits: ``[*batch, D, C]``, or a distribution, as for ``carms.expectation``.
        estimator: what each sample is compared with.
        samples: N, at least 2, or 1 for ``"reinforce"``.
        generator: source of randomness; the global one if None.
        one_hot: False to give ``log_weight`` indices ``[N, *batch, D]`` instead.

    Returns:
        The estimate ``[*batch]``, ready for ``backward()``.

    References:
        - Mnih and Rezende (2016) [mnih2016]
        - Burda, Grosse and Salakhutdinov (2016) [burda2016]

    Examples:
        >>> logits = torch.zeros(3, 4, requires_grad=True)
        >>> importance_bound(lambda z: z[..., 0].sum(-1), logits, samples=5).backward()
        >>> logits.grad.shape
        torch.Size([3, 4])
    """
    check_choice("estimator", estimator, ("vimco", "leave-one-out", "reinforce"))
    check_function("log_weight", log_weight)
    check_flag("one_hot", one_hot)
    samples = enough_samples(estimator, samples, least=1 if estimator == "reinforce" else 2)
    draw = Reinforce(samples).sample(logits, generator)
    own_logits = draw.variables.logits
    if estimator != "reinforce":
        shape = (samples, samples, *own_logits.shape[:-2])
        check_memory("weights of pairs of samples", shape, 16, own_logits.device)
    values = check_values(evaluate(log_weight, draw, one_hot), draw.drawn, name="log_weight")
    check_unchanged(own_logits, draw.before)
    bound = values.logsumexp(0) - math.log(samples)
    if not differentiated(own_logits):
        return bound
    with plain_numerics(own_logits):
        wide = values.detach().to(computing_dtype(values.dtype))
        gain = wide.logsumexp(0) - math.log(samples) - _baselines(wide, estimator)
    return put_scores(bound, own_logits, draw.drawn, gain.unsqueeze(-1))


def _baselines(log_w: Tensor, estimator: str) -> Tensor:
    """Baseline ``[N, *batch]`` of each sample, made of the other samples."""
    count = len(log_w)
    if estimator == "reinforce":
        return torch.zeros_like(log_w)
    same = torch.eye(count, dtype=torch.bool, device=log_w.device)
    same = same.view(count, count, *[1] * (log_w.ndim - 1))
    if estimator == "leave-one-out":
        others = log_w.masked_fill(same, -torch.inf)
        return others.logsumexp(1) - math.log(count - 1)
    # Summed over the others, not subtracted from the sum of all: where one log weight is far from
    # the rest, the difference would be rounding error.
    geometric = (log_w / (count - 1)).masked_fill(same, 0).sum(1)
    return torch.where(same, geometric.unsqueeze(1), log_w).logsumexp(1) - math.log(count)
