"""Where a user's values enter: every check of them, once."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

from carms.checks import check_floats, check_integers, check_mask, check_place
from carms.groups import join, split
from carms.one_hot import one_hot
from carms.precision import computing_dtype
from carms.softmax import softmax

__all__ = [
    "Distribution",
    "Variables",
    "check_categories",
    "check_probs",
    "check_terms",
    "check_values",
    "holds",
    "probabilities",
]

# In words, since torch's class has no type parameter but for type checkers.
Group: TypeAlias = "Tensor | Categorical | OneHotCategorical | Bernoulli | Independent[Any]"
Distribution: TypeAlias = "Group | tuple[Group, ...]"


@dataclass(frozen=True)
class Variables:
    """Categorical variables as logits ``[*batch, D, C]``.

    Attributes:
        binary: they came as a Bernoulli, whose samples are zeros and ones ``[*batch, D]``.
        groups: they came as a tuple; ``f`` sees a tensor for each of these.
    """

    logits: Tensor
    binary: bool = False
    groups: tuple["Variables", ...] = ()

    def samples(self, indices: Tensor) -> Any:
        """What ``f`` sees of categories ``[..., D]``: one-hot ``[..., D, C]`` in the dtype of the
        logits; of a Bernoulli, zeros and ones ``[..., D]``; of groups, a tuple of these.
        """
        if self.groups:
            parts = zip(self.groups, self.indices(indices), strict=True)
            return tuple(group.samples(part) for group, part in parts)
        dtype = self.logits.dtype
        return indices.to(dtype) if self.binary else one_hot(indices, self.logits.shape[-1], dtype)

    def soft_samples(self, z: Tensor) -> Any:
        """What ``f`` sees of soft samples ``[..., D, C]``, in the shapes of ``samples``."""
        if self.groups:
            parts = zip(self.groups, split(z, [each.logits for each in self.groups]), strict=True)
            return tuple(group.soft_samples(part) for group, part in parts)
        return (z[..., 1] if self.binary else z).to(self.logits.dtype)

    def indices(self, indices: Tensor) -> Any:
        """Categories ``[..., D]`` as they are; of groups, a tuple."""
        if not self.groups:
            return indices
        return indices.split([each.logits.shape[-2] for each in self.groups], -1)

    @staticmethod
    def of(given: Distribution) -> "Variables":
        """Take logits, a distribution or a tuple of groups as the user has it."""
        if isinstance(given, tuple):
            return _side_by_side(tuple(map(Variables.of, given)))
        if isinstance(given, Independent):
            return Variables.of(_variables_of_one(given))
        if isinstance(given, Bernoulli):
            return Variables(_bernoulli_logits(given), binary=True)
        if isinstance(given, Categorical):
            logits = _categorical_logits(given)
        elif isinstance(given, OneHotCategorical):
            logits = _categorical_logits(given._categorical)
        elif isinstance(given, Tensor):
            logits = check_floats("logits", given)
        else:
            raise TypeError(
                "logits must be a tensor or a Categorical, OneHotCategorical or Bernoulli "
                "distribution, also inside Independent, or a tuple of these, got "
                f"{type(given).__name__}"
            )
        if logits.ndim < 2:
            raise ValueError(
                "logits must be [*batch, D, C] (D variables of C categories), got shape "
                f"{list(logits.shape)}; for a single variable, use logits.unsqueeze(-2)"
            )
        if logits.shape[-1] < 2:
            raise ValueError(
                f"a variable needs at least 2 categories, got logits of shape {list(logits.shape)}"
            )
        return Variables(logits)


def _side_by_side(groups: tuple[Variables, ...]) -> Variables:
    """Groups of variables as one, if their batch shapes are equal."""
    if not groups or any(group.groups for group in groups):
        raise ValueError(
            "a tuple of logits must hold one or more groups [*batch, D, C], and no tuples"
        )
    batches = [list(group.logits.shape[:-2]) for group in groups]
    if any(batch != batches[0] for batch in batches):
        raise ValueError(
            "all groups must have the same batch shape, as in [*batch, D, C]; got "
            f"{' and '.join(map(str, batches))}"
        )
    for group in groups:
        check_place("each group", group.logits, "the first is", groups[0].logits)
    return Variables(join([group.logits for group in groups]), groups=groups)


def _variables_of_one(given: "Independent[Any]") -> Group:
    """The distribution inside, whose last batch dimension is that of the D variables."""
    if given.reinterpreted_batch_ndims != 1:
        raise ValueError(
            "an Independent must have one dimension of variables, as in "
            "Independent(Categorical(logits=[*batch, D, C]), 1), got "
            f"reinterpreted_batch_ndims={given.reinterpreted_batch_ndims}"
        )
    inside: Group = given.base_dist
    return inside


def _categorical_logits(given: Categorical) -> Tensor:
    """The logits, without the clamp of torch where they come from probabilities."""
    return _log(given.probs) if _made_of_probs(given) else given.logits


def _bernoulli_logits(given: Bernoulli) -> Tensor:
    """``[*batch, D, 2]``: logits of zero and one."""
    if _made_of_probs(given):
        zero, one = _log(1 - given.probs), _log(given.probs)
    else:
        zero, one = torch.zeros_like(given.logits), given.logits
    if one.ndim < 1:
        raise ValueError("a Bernoulli must have shape [*batch, D], got a scalar")
    return torch.stack((zero, one), -1)


def _made_of_probs(given: Categorical | Bernoulli) -> bool:
    """Not of logits: torch makes the one of the other when asked, clamps it and keeps it."""
    check_floats("the parameter of the distribution", given._param)
    return given._param is vars(given).get("probs")


def _log(probs: Tensor) -> Tensor:
    """``log(probs)`` whose gradient at zero is zero rather than NaN."""
    possible = probs > 0
    return torch.where(possible, torch.where(possible, probs, 1).log(), -torch.inf)


def probabilities(logits: Tensor) -> Tensor:
    """``softmax(logits)`` outside the graph, or an error that names the bad logits."""
    probs = softmax(logits.detach().to(computing_dtype(logits.dtype)))
    # One NaN or +inf, or nothing but -inf, makes every probability of a row NaN.
    if holds(lambda: math.isnan(probs.sum())):
        row = logits.detach()[probs[..., 0].isnan()][0]
        what = (
            "NaN" if row.isnan().any() else "+inf" if row.isposinf().any() else "nothing but -inf"
        )
        raise ValueError(
            f"logits must be finite, or -inf for categories that are never drawn; got {what}"
        )
    return probs


def check_probs(probs: object) -> Tensor:
    """Non-negative ``[*batch, C]``, not necessarily normalised, in single precision or more."""
    if not isinstance(probs, Tensor):
        raise TypeError(f"probs must be a tensor [*batch, C], got {type(probs).__name__}")
    check_floats("probs", probs)
    if probs.ndim < 1 or probs.shape[-1] < 2:
        raise ValueError(
            f"probs must be [*batch, C] with at least 2 categories, got shape {list(probs.shape)}"
        )
    probs = probs.detach().to(computing_dtype(probs.dtype))
    if holds(lambda: ~((probs >= 0).all() & probs.sum(-1).isfinite().all())):
        raise ValueError(
            "probs must be non-negative and finite, got negative, NaN or infinite ones"
        )
    if holds(lambda: (probs.sum(-1) <= 0).any()):
        raise ValueError("probs must have a positive sum over the categories, got all zeros")
    return probs


def check_categories(indices: object, probs: Tensor) -> Tensor:
    """Drawn categories ``[N, *batch]`` of ``probs [*batch, C]``, as long integers."""
    indices = check_integers("indices", indices).long()
    batch, categories = probs.shape[:-1], probs.shape[-1]
    if indices.ndim != probs.ndim or indices.shape[1:] != batch:
        wanted = ", ".join(map(str, ("N", *batch)))
        raise ValueError(
            f"indices must be [N, *batch] = [{wanted}] for probs of shape {list(probs.shape)}, "
            f"got shape {list(indices.shape)}"
        )
    check_place("indices", indices, "probs are", probs)
    if holds(lambda: ((indices < 0) | (indices >= categories)).any()):
        raise ValueError(
            f"indices must be from 0 to {categories - 1}, one of the {categories} categories, got "
            f"some from {int(indices.min())} to {int(indices.max())}"
        )
    if holds(lambda: (probs.gather(-1, indices.movedim(0, -1)) == 0).any()):
        raise ValueError(
            "indices must be of categories that can be drawn, got one whose probability is zero"
        )
    return indices


def check_terms(terms: object, indices: Tensor) -> Tensor:
    """Which term depends on which variable: zeros and ones ``[K, D]``, at least a one for each.

    Args:
        terms: as given.
        indices: ``[N, *batch, D]``, the samples.
    """
    if not isinstance(terms, Tensor):
        raise TypeError(
            f"terms must be a tensor [K, D] of zeros and ones, got {type(terms).__name__}"
        )
    check_mask("terms", terms)
    variables = indices.shape[-1]
    check_place("terms", terms, "z is", indices)
    if terms.ndim != 2 or terms.shape[1] != variables:
        raise ValueError(
            f"terms must be [K, D]: a row for each term, a column for each of the D = {variables} "
            f"variables; got shape {list(terms.shape)}"
        )
    if terms.dtype != torch.bool and holds(lambda: ((terms != 0) & (terms != 1)).any()):
        raise ValueError(
            "terms must be zeros and ones (or a boolean mask), got other numbers; weights of the "
            "terms belong in f"
        )
    if holds(lambda: (terms == 0).all(0).any()):
        lonely = (terms == 0).all(0).nonzero().flatten().tolist()
        raise ValueError(
            f"no term depends on variable {', '.join(map(str, lonely))}: it would learn nothing; "
            "each column of terms needs a one"
        )
    return terms


def check_values(values: object, indices: Tensor, terms: int | None = None) -> Tensor:
    """What ``f`` made of samples ``[N, *batch, D]``, if it is finite floats ``[N, *batch]``, or
    ``[N, *batch, K]`` of K terms.
    """
    samples = indices.shape
    expected, what = samples[:-1], "[N, *batch]"
    if terms is not None:
        expected, what = torch.Size((*expected, terms)), "[N, *batch, K]"
    shape = list(expected)
    if not isinstance(values, Tensor):
        hint = ""
        if isinstance(values, tuple):
            hint = (
                "; to get more than values out of it take two steps: draw = "
                "estimator.sample(logits), values, more = f(draw.z), estimator.surrogate(draw, "
                "values)"
            )
        raise TypeError(
            f"the values of f must be a tensor {what} = {shape}, got {type(values).__name__}{hint}"
        )
    check_floats("the values of f", values)
    check_place("the values of f", values, "z is", indices)
    if values.shape != expected:
        each = "sample" if terms is None else f"sample and each of the {terms} terms"
        hint = ""
        if terms is None and values.shape == samples:
            example = "each example" if len(samples) > 2 else "one example"
            hint = (
                f"; logits are [*batch, D, C], so these were D = {samples[-1]} variables of "
                f"{example}: for a batch of single variables use logits.unsqueeze(-2), and for one "
                f"term of a sum per variable give terms=torch.eye({samples[-1]})"
            )
        raise ValueError(
            f"the values of f must be one per {each}, {what} = {shape}, "
            f"got shape {list(values.shape)}{hint}"
        )
    # A sum can be infinite of finite values, but not the other way round.
    if holds(lambda: not math.isfinite(values.detach().sum())) and not values.isfinite().all():
        bad = int((~values.isfinite()).sum())
        raise ValueError(f"f returned NaN or infinity for {bad} of {values.numel()} samples")
    return values


def holds(condition: Callable[[], Tensor | bool]) -> bool:
    """Look at values where that is possible: not while compiling, nor under ``vmap``."""
    if torch.compiler.is_compiling():
        return False
    try:
        return bool(condition())
    except RuntimeError as error:
        if "vmap" in str(error):
            return False
        raise
