"""The contract of all estimators."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from carms.core.checks.options import check_flag, enough_samples, whole_number
from carms.core.checks.samples import (
    check_draw,
    check_graph,
    check_terms,
    check_unchanged,
    check_values,
    fingerprint,
)
from carms.core.checks.tensors import check_function
from carms.core.one_hot import one_hot
from carms.core.shown import described, shown_options
from carms.core.variables import Distribution, Variables

__all__ = [
    "Draw",
    "Estimator",
    "Objective",
    "evaluate",
]

Objective = Callable[..., Tensor]

if TYPE_CHECKING:  # `typing` has defaults from Python 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    Memory = TypeVarWithDefault("Memory", default=Any)
else:
    Memory = TypeVar("Memory")


@dataclass(frozen=True, eq=False)
class Draw(Generic[Memory]):
    """Samples on which ``f`` is to be evaluated.

    Attributes:
        maker: the estimator that drew them, the only one that can use them.
        variables: what they were drawn from.
        drawn: ``[N, *batch, D]`` categories; users get copies of them as ``indices``.
        memory: what else the maker has to remember of the draw, in a type of its own.
        differentiable: ``[N, *batch, D, C]``, what ``f`` sees in place of the one-hot samples.
        before: the ``fingerprint`` of the logits from which they were drawn.
    """

    maker: "Estimator"
    variables: Variables
    drawn: Tensor
    memory: Memory
    differentiable: Tensor | None = None
    before: int | Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", fingerprint(self.variables.logits))

    @property
    def indices(self) -> Tensor:
        """The categories ``[N, *batch, D]``: a copy, since whoever takes them may write on it."""
        return self.drawn.clone()

    @property
    def z(self) -> Any:
        """The samples as ``f`` sees them: one-hot ``[N, *batch, D, C]`` in the dtype of the logits;
        for a Bernoulli, zeros and ones ``[N, *batch, D]``; for groups, a tuple of these.
        """
        if self.differentiable is not None:
            # A copy, since `f` may write on what it is given.
            return self.variables.soft_samples(self.differentiable.clone())
        return self.variables.samples(self.drawn)

    def one_hot(self, dtype: torch.dtype) -> Tensor:
        """The samples as one-hot vectors ``[N, *batch, D, C]``, whatever ``f`` sees."""
        return one_hot(self.drawn, self.variables.logits.shape[-1], dtype)

    def __repr__(self) -> str:
        return f"Draw({self.maker}, indices={list(self.drawn.shape)})"


class Estimator(torch.nn.Module, ABC):
    """Estimate ``E f(z)`` for ``z ~ Cat(softmax(logits))`` and, in the backward pass, its gradient.

    The facts about an estimator are attributes of its class, and everything else reads them there.

    Args:
        samples: number of samples per call.

    Attributes:
        name: what ``carms.make`` calls it.
        unbiased: whether the expectation of the gradient is the gradient.
        requires: what else ``f`` must be for an unbiased gradient; empty if nothing else.
        black_box: whether ``f`` may be anything that returns a number.
        learned: whether it has parameters for an optimiser of their own.
        stateful: whether it must be made once, since it is of no use before it has learned from
            calls; ``carms.expectation`` does not take it by name.
        soft: whether ``f`` sees soft samples in the value that is differentiated.
        soft_points: whether ``f`` is evaluated between the one-hot vectors too.
        binary_only: whether variables must have two categories.
        paired: whether it draws pairs, so that the number of samples must be even.
        least_samples: the smallest number of samples.
        sums_to_zero: whether every estimate adds up to zero over the categories of a variable, as
            the gradient does; otherwise only its expectation does.
        centred: whether a constant added to ``f`` drops out of every gradient, as long as nothing
            is learned; otherwise it does so only on average.
        balanced: whether the gradient weighs the scores of the samples, and the weights of each
            variable add up to zero: the samples are compared with each other.
        no_terms: why it does not take ``terms``; empty if it does.
    """

    name: ClassVar[str] = ""
    unbiased: bool = True
    requires: str = ""
    black_box: bool = True
    learned: bool = False
    stateful: bool = False
    soft: bool = False
    soft_points: bool = False
    binary_only: bool = False
    paired: bool = False
    least_samples: int = 1
    sums_to_zero: bool = True
    centred: bool = True
    balanced: bool = False
    no_terms: str = ""

    def __init__(self, samples: int = 8) -> None:
        super().__init__()
        self.samples = self._check_samples(samples)

    @classmethod
    def usual_samples(cls, categories: int) -> int:
        """The number of samples that the paper compares it with, for this number of categories."""
        return categories

    def evaluations(self, variables: int, categories: int) -> int | None:
        """Number of points at which a call evaluates ``f``; None if it is random."""
        return self.samples

    def expectation(
        self,
        f: Objective,
        logits: Distribution,
        generator: torch.Generator | None = None,
        *,
        one_hot: bool = True,
        terms: Tensor | None = None,
    ) -> Tensor:
        """An estimate ``[*batch]`` of ``E f(z)`` that can be differentiated.

        Args:
            f: takes ``[N, *batch, D, C]`` one-hot samples and returns ``[N, *batch]``.
            logits: ``[*batch, D, C]``, or a Categorical, OneHotCategorical or Bernoulli, or a tuple
                of groups; ``f`` then takes an argument for each.
            generator: source of randomness; the global one if None.
            one_hot: False to give ``f`` indices ``[N, *batch, D]`` instead.
            terms: ``[K, D]``, True where a term depends on a variable; ``f`` then returns the
                terms ``[N, *batch, K]`` of a sum.
        """
        check_function("f", f)
        self._check_one_hot(one_hot)
        if terms is not None:
            self._check_terms(terms, Variables.of(logits).logits)
        draw = self.sample(logits, generator)
        return self.surrogate(draw, evaluate(f, draw, one_hot), terms)

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        """Do what ``expectation`` does, so that an estimator can be called like any module."""
        return self.expectation(*arguments, **options)

    @abstractmethod
    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        """Draw the points at which to evaluate ``f``: the first half of ``expectation``."""

    @abstractmethod
    def surrogate(self, draw: Draw, fz: Tensor, terms: Tensor | None = None) -> Tensor:
        """Make value and gradients from values of ``f``: the second half of ``expectation``.

        Args:
            draw: from ``sample``.
            fz: ``[N, *batch]``, or ``[N, *batch, K]`` with ``terms``.
            terms: ``[K, D]``, as for ``expectation``.
        """

    def _check_values(self, draw: Draw, fz: object, terms: Tensor | None) -> Tensor:
        """Return ``fz`` if it has a value for each sample, and for each term if there are any."""
        check_draw(self, draw, Draw)
        check_unchanged(draw.variables.logits, draw.before)
        check_graph(self, draw.variables.logits, draw.drawn, draw.differentiable)
        if terms is None:
            return check_values(fz, draw.drawn)
        self._check_terms(terms, draw.variables.logits)
        return check_values(fz, draw.drawn, len(terms))

    def _check_terms(self, terms: Tensor, logits: Tensor) -> None:
        if self.no_terms:
            raise ValueError(f"{self} takes no terms: {self.no_terms}; let f return their sum")
        check_terms(terms, logits)

    def _check_one_hot(self, one_hot: bool) -> None:
        check_flag("one_hot", one_hot)
        if not one_hot and not self.black_box:
            raise ValueError(
                f"{self} differentiates f with respect to one-hot samples: one_hot=False is not "
                "possible"
            )

    @classmethod
    def _check_samples(cls, samples: int) -> int:
        samples = whole_number("samples", samples)
        if cls.paired and (samples < cls.least_samples or samples % 2):
            raise ValueError(f"{cls._title()} draws pairs: samples must be even, got {samples=}")
        hint = "; reinforce takes a single one" if samples == 1 else ""
        return enough_samples(cls._title(), samples, cls.least_samples, hint)

    def _check_categories(self, categories: int) -> None:
        if self.binary_only and categories != 2:
            raise ValueError(
                f"{self._title()} is for binary variables, got {categories} categories; carms-s "
                "and carms-i take any number"
            )

    @classmethod
    def _title(cls) -> str:
        return cls.name or cls.__name__

    def __repr__(self) -> str:
        """The name, the number of samples, and all options that are not at their defaults."""
        return described(self._title(), shown_options(self, "samples"))


def evaluate(f: Objective, draw: Draw, one_hot: bool) -> Tensor:
    """Values of ``f`` at the samples, or at their indices; each group is an argument of its own."""
    seen = draw.z if one_hot else draw.variables.indices(draw.indices)
    arguments = seen if draw.variables.groups else (seen,)
    if torch.compiler.is_compiling():
        return f(*arguments)
    try:
        return f(*arguments)
    except Exception as error:
        shapes = " and ".join(str(list(each.shape)) for each in arguments)
        empty = "" if draw.drawn.shape[1:-1].numel() else "The batch is empty: "
        if empty or isinstance(error, TypeError):
            error.add_note(f"{empty}f was given samples of shape {shapes}.")
        raise
