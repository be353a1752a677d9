"""The contract of all estimators, and the ways in which they make a gradient."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from carms.couplings.partition import Partition
from carms.inputs import Distribution, Variables, check_values, probabilities
from carms.one_hot import one_hot
from carms.precision import computing_dtype, precise_dtype
from carms.randomness import uniform
from carms.softmax import log_softmax

__all__ = [
    "Differentiating",
    "Direct",
    "Draw",
    "Drawing",
    "Estimator",
    "Objective",
    "Reparameterised",
    "ScoreFunction",
    "independent_samples",
    "leaf",
    "plain_numerics",
    "put_gradient",
    "slope",
    "wants_gradient",
]

Objective = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Draw:
    """Samples on which ``f`` is to be evaluated.

    Attributes:
        variables: what they were drawn from.
        indices: ``[N, *batch, D]`` categories.
        extra: what the estimator has to remember of the draw beside the indices.
        relaxed: ``[N, *batch, D, C]``, what ``f`` sees in place of the one-hot samples.
    """

    variables: Variables
    indices: Tensor
    extra: tuple[Tensor, ...] = ()
    relaxed: Tensor | None = None

    @property
    def z(self) -> Tensor:
        """The samples as ``f`` sees them: one-hot ``[N, *batch, D, C]`` in the dtype of the logits;
        of a Bernoulli, zeros and ones ``[N, *batch, D]``.
        """
        dtype = self.variables.logits.dtype
        if self.relaxed is not None:
            return self.variables.seen(self.relaxed).to(dtype)
        return self.indices.to(dtype) if self.variables.binary else self.one_hot(dtype)

    def one_hot(self, dtype: torch.dtype) -> Tensor:
        """The samples as one-hot vectors ``[N, *batch, D, C]``, whatever ``f`` sees."""
        return one_hot(self.indices, self.variables.logits.shape[-1], dtype)


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
        self._check_one_hot(one_hot)
        draw = self.sample(logits, generator)
        return self.surrogate(draw, f(draw.z if one_hot else draw.indices.clone()))

    @abstractmethod
    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        """The first half of :meth:`expectation`: where to evaluate ``f``."""

    @abstractmethod
    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        """The second half: from the values ``fz [N, *batch]`` to value and gradients."""

    def _check_one_hot(self, one_hot: bool) -> None:
        if not one_hot and not self.black_box:
            raise ValueError(
                f"{self} differentiates f with respect to one-hot samples: one_hot=False is not "
                "possible"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(samples={self.samples})"


class Drawing(Estimator):
    """Estimators that know where to evaluate ``f`` from the probabilities alone."""

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        with plain_numerics(variables.logits):
            return Draw(variables, *self._draw(probabilities(variables.logits), generator))

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        fz = check_values(fz, draw.indices.shape)
        value = self._value(draw, fz)
        if not torch.is_grad_enabled():
            return value
        return self._with_gradient(value, draw, fz.detach())

    @abstractmethod
    def _draw(
        self, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Indices ``[N, *batch, D]`` and what to remember, from ``probs [*batch, D, C]``."""

    @abstractmethod
    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor) -> Tensor:
        """The value, whose backward pass also puts the estimate on the logits."""

    def _value(self, draw: Draw, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


class ScoreFunction(Drawing):
    """Estimators ``sum_n w_n d log p(z_n) / d logits`` whose weights ``w`` are made of ``f``."""

    centred: bool = True
    """Whether the weights of each variable add up to zero, so that the normaliser drops out."""

    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            weights = self._weights(draw, fz.to(computing_dtype(fz.dtype)))
        wide = logits.to(computing_dtype(logits.dtype))
        scores = wide if self.centred else log_softmax(wide)
        picked = scores.gather(-1, draw.indices.movedim(0, -1))
        term = (picked * weights.movedim(0, -1).to(wide.dtype)).sum((-2, -1))
        return value + (term - term.detach()).to(value.dtype)

    def contributions(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[N, *batch, D, C]``, one for each sample, whose mean is the gradient."""
        fz = check_values(fz, draw.indices.shape).detach()
        with plain_numerics(fz):
            probs = probabilities(draw.variables.logits)
            weights = self._weights(draw, fz.to(computing_dtype(fz.dtype)))
            score = draw.one_hot(probs.dtype) - probs
            return len(fz) * weights.unsqueeze(-1) * score

    @abstractmethod
    def _weights(self, draw: Draw, fz: Tensor) -> Tensor:
        """Weights ``[N, *batch, D]``, or ``[N, *batch, 1]`` where all variables share them."""


class Direct(Drawing):
    """Estimators that give the gradient of all logits as a tensor of their shape."""

    def _with_gradient(self, value: Tensor, draw: Draw, fz: Tensor) -> Tensor:
        logits = draw.variables.logits
        with plain_numerics(logits):
            dtype = torch.promote_types(computing_dtype(fz.dtype), logits.dtype)
            gradient = self._gradient(draw, fz.to(dtype))
        return put_gradient(value, logits, gradient)

    @abstractmethod
    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[*batch, D, C]`` from the values ``[N, *batch]``."""


class Reparameterised(Estimator):
    """Estimators that let the gradient of ``f`` flow back through samples made of the logits."""

    unbiased = False
    black_box = False
    soft = False
    """Whether ``f`` sees soft samples; otherwise hard ones that only pass the gradient on."""

    def __init__(self, samples: int = 8) -> None:
        if samples < 1:
            raise ValueError(
                f"{type(self).__name__} needs at least 1 sample, got samples={samples}"
            )
        self.samples = samples

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        probs = probabilities(variables.logits)
        with torch.autocast(probs.device.type, enabled=False):
            wide = variables.logits.to(probs.dtype)
            indices, relaxed = self._reparameterise(wide, probs, generator)
            draw = Draw(variables, indices)
            return replace(
                draw, relaxed=relaxed if self.soft else draw.one_hot(wide.dtype) + relaxed
            )

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        fz = check_values(fz, draw.indices.shape)
        if not torch.compiler.is_compiling() and not _leads_to(fz, draw.relaxed):
            raise ValueError(
                f"{self} needs a differentiable f, but its values do not depend on z in a way that "
                "autograd sees; loorf and carms-s take any f"
            )
        return fz.mean(0)

    @abstractmethod
    def _reparameterise(
        self, logits: Tensor, probs: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Indices ``[N, *batch, D]``, and soft samples ``[N, *batch, D, C]`` or else zeros that
        broadcast to them, whose graph leads to the logits ``[*batch, D, C]``.
        """


class Differentiating(Estimator):
    """Estimators that make the gradient of all logits from derivatives of ``f``.

    A subclass that is a ``torch.nn.Module`` is learned: in ``train()`` mode the backward pass also
    puts the gradient of the estimator's variance on its parameters, for an optimiser of their own.
    It does not matter by what the value is multiplied before ``backward()``, so it must not be
    clipped or unscaled together with other gradients; every backward pass adds to it once more.
    """

    black_box = False

    def surrogate(self, draw: Draw, fz: Tensor) -> Tensor:
        fz = check_values(fz, draw.indices.shape)
        value = self._value(draw, fz)
        if not wants_gradient(draw.variables.logits):
            return value
        with torch.autocast(fz.device.type, enabled=False):
            gradient = self._gradient(draw, fz)
        value = put_gradient(value, draw.variables.logits, gradient.detach())
        if not isinstance(self, torch.nn.Module) or not self.training or not gradient.requires_grad:
            return value
        parameters = [each for each in self.parameters() if each.requires_grad]
        if not parameters:
            return value
        # The mean of an unbiased gradient does not move, so its square is the variance.
        loss = gradient.square().sum() / max(1, value.numel())
        teaching = torch.autograd.grad(
            loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        taught: Tensor = _Taught.apply(value, *parameters, *teaching)  # type: ignore[no-untyped-call]
        return taught

    @abstractmethod
    def _gradient(self, draw: Draw, fz: Tensor) -> Tensor:
        """``[*batch, D, C]`` from the values ``fz`` with their graph; with a graph of its own to
        the parameters that are learned.
        """

    def _value(self, draw: Draw, fz: Tensor) -> Tensor:
        """The estimate ``[*batch]`` of the expectation, whose graph leads to the other tensors."""
        return fz.mean(0)


class _Taught(torch.autograd.Function):
    """The value, whose backward pass gives each parameter the gradient that is meant for it."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors[len(tensors) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return upstream[0], *ctx.saved_tensors, *[None] * len(ctx.saved_tensors)


def slope(estimator: Estimator, values: Tensor, of: Tensor, create_graph: bool = False) -> Tensor:
    """The derivative of each value with respect to the sample ``of`` that it was made from."""
    found = None
    if values.requires_grad:
        (found,) = torch.autograd.grad(
            values.sum(), of, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    if found is None:
        raise ValueError(
            f"{estimator} needs the derivative of f with respect to z, and the values of f do not "
            "depend on z in a way that autograd sees; loorf and carms-s take any f"
        )
    return found


def wants_gradient(logits: Tensor) -> bool:
    """Whether anybody will ask for the gradient of the logits."""
    return torch.is_grad_enabled() and logits.requires_grad


def leaf(values: Tensor, variables: Variables) -> Tensor:
    """``values`` outside the graph, to differentiate with respect to if the gradient is wanted."""
    try:
        return values.detach().requires_grad_(wants_gradient(variables.logits))
    except RuntimeError as error:
        raise RuntimeError(
            "an estimator that differentiates by itself (double-cv, muprop, rebar, relax, rodeo) "
            "does not work inside torch.func transforms such as vmap; make a batch dimension of "
            "what is mapped over"
        ) from error


def _leads_to(values: Tensor, source: Tensor | None) -> bool:
    """Whether the graph of the values comes by the source; True where there is nothing to find."""
    if source is None or source.grad_fn is None or not torch.is_grad_enabled():
        return True
    todo, seen = [values.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is source.grad_fn:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
    return False


def put_gradient(value: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    """``value [*batch]``, whose backward pass also puts ``gradient [*batch, D, C]`` on the logits.

    Nothing is put on a logit of ``-inf``, whose category does not exist.
    """
    wide = logits.to(gradient.dtype)
    exists = ~wide.detach().isneginf()
    term = (torch.where(exists, wide, 0) * gradient).sum((-2, -1))
    return value + (term - term.detach()).to(value.dtype)


@contextmanager
def plain_numerics(like: Tensor) -> Iterator[None]:
    """Outside the graph, and in the precision that we choose: rounded weights would be biased."""
    with torch.no_grad(), torch.autocast(like.device.type, enabled=False):
        yield


def independent_samples(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """``[samples, *batch]`` independent categories from ``probs [*batch, C]``."""
    u = uniform((samples, *probs.shape[:-1]), generator, precise_dtype(probs.device), probs.device)
    return Partition.of(probs).category(u)
