"""The contract of all estimators, and what those based on the score function share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from carms.couplings.partition import Partition
from carms.inputs import Distribution, Variables, check_values, probabilities
from carms.precision import computing_dtype, precise_dtype
from carms.randomness import uniform

__all__ = ["Draw", "Estimator", "Objective", "ScoreFunction", "independent_samples"]

Objective = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Draw:
    """Samples on which ``f`` is to be evaluated.

    Attributes:
        variables: what they were drawn from.
        indices: ``[N, *batch, D]`` categories.
        ratio: what the estimator's weights need to know of the draw beside the indices.
    """

    variables: Variables
    indices: Tensor
    ratio: Tensor | float = 1.0

    @property
    def z(self) -> Tensor:
        """The samples as ``f`` sees them: one-hot ``[N, *batch, D, C]`` in the dtype of the logits;
        of a Bernoulli, zeros and ones ``[N, *batch, D]``.
        """
        logits = self.variables.logits
        if self.variables.binary:
            return self.indices.to(logits.dtype)
        categories = torch.arange(logits.shape[-1], device=logits.device)
        return (self.indices.unsqueeze(-1) == categories).to(logits.dtype)


class Estimator(ABC):
    """Estimates ``E f(z)`` for ``z ~ Cat(softmax(logits))``; its backward pass, the gradient.

    Attributes:
        samples: drawn per call; 0 where nothing is left to chance.
        unbiased: whether the expectation of the gradient is the gradient.
        black_box: whether ``f`` may be anything that returns a number.
        stateful: whether it learns from call to call.
    """

    samples: int
    unbiased: bool = True
    black_box: bool = True
    stateful: bool = False

    def expectation(
        self,
        f: Objective,
        logits: Distribution,
        generator: torch.Generator | None = None,
        *,
        one_hot: bool = True,
    ) -> Tensor:
        """An estimate ``[*batch]`` of ``E f(z)`` that can be differentiated.

        Args:
            f: takes ``[N, *batch, D, C]`` one-hot samples and returns ``[N, *batch]``.
            logits: ``[*batch, D, C]``, or a Categorical, OneHotCategorical or Bernoulli.
            generator: source of randomness; the global one if None.
            one_hot: False to give ``f`` indices ``[N, *batch, D]`` instead.
        """
        draw = self.sample(logits, generator)
        return self.surrogate(draw, f(draw.z if one_hot else draw.indices))

    @abstractmethod
    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        """The first half of :meth:`expectation`: where to evaluate ``f``."""

    @abstractmethod
    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        """The second half: from the values ``fz [N, *batch]`` to value and gradients."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(samples={self.samples})"


class ScoreFunction(Estimator):
    """Estimators ``sum_n w_n d log p(z_n) / d logits`` whose weights ``w`` are made of ``f``."""

    centred: bool = True
    """Whether the weights of each variable add up to zero, so that the normaliser drops out."""

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        with _plain_numerics(variables.logits):
            return Draw(variables, *self._draw(probabilities(variables.logits), generator))

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        logits = draw.variables.logits
        fz = check_values(fz, draw.indices.shape)
        value = fz.mean(0)
        if not torch.is_grad_enabled():
            return value
        with _plain_numerics(logits):
            weights = self._weights(draw, fz.detach().to(computing_dtype(fz.dtype)))
        wide = logits.to(computing_dtype(logits.dtype))
        scores = wide if self.centred else wide.log_softmax(-1)
        picked = scores.gather(-1, draw.indices.movedim(0, -1))
        term = (picked * weights.movedim(0, -1).to(wide.dtype)).sum((-2, -1))
        return value + (term - term.detach()).to(value.dtype)

    @abstractmethod
    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | float]:
        """Indices ``[N, *batch, D]`` and their ratio, from ``probs [*batch, D, C]``."""

    @abstractmethod
    def _weights(self, draw: Draw, fz: Tensor) -> Tensor:
        """Weights ``[N, *batch, D]``, or ``[N, *batch, 1]`` where all variables share them."""


@contextmanager
def _plain_numerics(like: Tensor) -> Iterator[None]:
    """Outside the graph, and in the precision that we choose: rounded weights would be biased."""
    with torch.no_grad(), torch.autocast(like.device.type, enabled=False):
        yield


def independent_samples(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """``[samples, *batch]`` independent categories from ``probs [*batch, C]``."""
    u = uniform((*probs.shape[:-1], samples), generator, precise_dtype(probs.device), probs.device)
    return Partition(probs).find(u).indices.movedim(-1, 0).contiguous()
