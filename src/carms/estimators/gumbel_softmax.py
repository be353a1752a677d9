"""Gumbel-Softmax, soft and straight-through."""

import torch
from torch import Tensor

from carms.core.checks.options import positive_number
from carms.core.softmax import log_softmax, softmax
from carms.estimators.families.relaxation import Relaxation, with_slope
from carms.estimators.families.softmax_slope import softmax_slope
from carms.estimators.registry import register
from carms.sampling.gumbel import exponentials, perturbed

__all__ = ["GumbelSoftmax", "StraightThroughGumbelSoftmax"]


@register("gumbel-softmax")
class GumbelSoftmax(Relaxation):
    """Replace the arg max of noisy logits by a softmax of some temperature.

    ``z = softmax((logits + noise) / temperature)``, differentiated as it stands. ``f`` sees soft
    samples, so that the value is biased as well as the gradient. N evaluations of a differentiable
    ``f``.

    Args:
        samples: number of samples, at least 1.
        temperature: towards 0 the bias falls and the variance rises without bound.

    References:
        - Jang, Gu and Poole (2017) [jang2017]
        - Maddison, Mnih and Teh (2017) [maddison2017]

    Examples:
        >>> import carms
        >>> draw = carms.make("gumbel-softmax", samples=4).sample(torch.zeros(5, 3))
        >>> bool((draw.z > 0).all()), bool((draw.z.sum(-1) - 1).abs().max() < 1e-5)  # soft samples
        (True, True)
    """

    soft = True
    soft_points = True

    def __init__(self, samples: int = 8, temperature: float = 0.5) -> None:
        super().__init__(samples)
        self.temperature = positive_number("temperature", temperature)

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        noisy = self._noisy(log_softmax(logits), generator)
        soft = softmax(noisy / self.temperature)
        # A copy, since `f` may write on it, and the softmax needs it for its backward pass.
        return noisy.argmax(-1), soft.clone(memory_format=torch.contiguous_format)

    def _noisy(self, log_probs: Tensor, generator: torch.Generator | None) -> Tensor:
        times = exponentials((self.samples, *log_probs.shape), log_probs, generator, precise=False)
        return perturbed(log_probs, times)


@register("st-gumbel-softmax")
class StraightThroughGumbelSoftmax(GumbelSoftmax):
    """Gumbel-Softmax in the backward pass only: ``f`` sees the hard sample.

    ``argmax(y) + softmax(y / temperature) - stop(softmax(y / temperature))`` with the same noisy
    logits ``y``. Biased. N evaluations of a differentiable ``f``.

    Args:
        samples: number of samples, at least 1.
        temperature: of the softmax that is differentiated.

    References:
        Jang, Gu and Poole (2017) [jang2017]

    Examples:
        >>> import carms
        >>> draw = carms.make("st-gumbel-softmax", samples=4).sample(torch.zeros(5, 3))
        >>> draw.z.unique()  # hard samples
        tensor([0., 1.])
    """

    soft = False
    soft_points = False

    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        noisy = self._noisy(probs.log(), generator)
        indices, soft = noisy.argmax(-1), softmax(noisy / self.temperature)
        return indices, with_slope(indices, softmax_slope(logits, soft) / self.temperature)
