"""Expectations over subsets and rankings, with estimators given by name."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from carms.subsets.base import Draw, SubsetEstimator
from carms.subsets.registry import make

__all__ = ["expectation", "sample", "surrogate"]


def expectation(
    f: Callable[[Tensor], Tensor],
    logits: Tensor,
    size: int,
    samples: int = 8,
    ordered: bool = False,
    estimator: str = "carms",
    generator: torch.Generator | None = None,
    **options: Any,
) -> Tensor:
    """Estimate ``E f`` over k of n items drawn without replacement, ready to be differentiated.

    One item after the other is drawn, each with the softmax of the logits that are left: the
    Plackett-Luce distribution, that of the k largest logits under Gumbel noise. The backward pass
    puts the estimator's gradient on the logits and the ordinary one on all else that ``f`` used.

    Args:
        f: takes subsets ``[N, *batch, n]`` of zeros and k ones and returns ``[N, *batch]``. With
            ``ordered``, it takes the items ``[N, *batch, k]`` in the order in which they were
            drawn.
        logits: ``[*batch, n]``; ``-inf`` marks an item that is never chosen.
        size: number of items to choose, k; all n of them make a permutation.
        samples: number of draws, N.
        ordered: True for rankings, False for subsets.
        estimator: a name from ``available``.
        generator: source of randomness; the global one if None.
        options: further options of the estimator.

    Returns:
        The estimate ``[*batch]``, ready for ``backward()``.

    Examples:
        >>> logits = torch.zeros(10, requires_grad=True)
        >>> value = expectation(lambda z: z[..., :5].sum(-1), logits, size=3)  # of the first five
        >>> value.backward()
        >>> logits.grad.shape
        torch.Size([10])
    """
    made = _once(estimator, size, samples, ordered, options)
    return made.expectation(f, logits, generator)


def sample(
    logits: Tensor,
    size: int,
    samples: int = 8,
    ordered: bool = False,
    estimator: str = "carms",
    generator: torch.Generator | None = None,
    **options: Any,
) -> Draw:
    """First half of ``expectation``, with the same arguments but ``f``: draw the samples.

    For code in which ``f`` cannot be a function: evaluate it on ``draw.z``, and give the values to
    ``surrogate``.

    Examples:
        >>> logits = torch.zeros(10, requires_grad=True)
        >>> draw = sample(logits, size=3, samples=4)
        >>> draw.z.shape, draw.items.shape
        (torch.Size([4, 10]), torch.Size([4, 3]))
        >>> surrogate(draw, draw.z[..., :5].sum(-1)).backward()
    """
    made = _once(estimator, size, samples, ordered, options)
    return made.sample(logits, generator)


def surrogate(draw: Draw, fz: Tensor) -> Tensor:
    """Value ``[*batch]`` with the gradients of ``expectation``, its second half.

    Args:
        draw: from ``sample``.
        fz: values ``[N, *batch]`` of ``f`` at ``draw.z``.
    """
    if not isinstance(draw, Draw):
        raise TypeError(f"draw must come from carms.subsets.sample, got {type(draw).__name__}")
    return draw.maker.surrogate(draw, fz)


def _once(
    name: str, size: int, samples: int, ordered: bool, options: dict[str, Any]
) -> SubsetEstimator:
    """An estimator for one call, in eval mode, since what it learns would be lost after it."""
    if isinstance(size, SubsetEstimator):
        raise TypeError(f"{size} is made already; call its own expectation, sample and surrogate")
    if isinstance(size, str):
        raise TypeError(f"size is the number of items; did you mean estimator={size!r}?")
    return make(name, size, samples=samples, ordered=ordered, **options).eval()
