"""Checks of probabilities, of samples and of the values of ``f``."""

import math
from typing import Any

import torch
from torch import Tensor

from carms.core.checks.tensors import (
    check_floats,
    check_integers,
    check_mask,
    check_same_device,
    holds,
)
from carms.core.dtypes import computing_dtype

__all__ = [
    "check_categories",
    "check_draw",
    "check_graph",
    "check_probs",
    "check_terms",
    "check_unchanged",
    "check_values",
    "fingerprint",
]


def check_probs(given: object) -> Tensor:
    """The probabilities ``[*batch, C]`` in single precision or more, if they are non-negative and
    have a positive sum.
    """
    probs = check_floats("probs", given, "[*batch, C]")
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
    check_same_device("indices", indices, "probs are", probs)
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


def check_terms(terms: object, logits: Tensor) -> Tensor:
    """The mask of terms, if it is zeros and ones ``[K, D]`` with at least a one for each variable.

    Args:
        terms: as given.
        logits: ``[*batch, D, C]``, the variables.
    """
    if not isinstance(terms, Tensor):
        raise TypeError(
            f"terms must be a tensor [K, D] of zeros and ones, got {type(terms).__name__}"
        )
    check_mask("terms", terms)
    variables = logits.shape[-2]
    check_same_device("terms", terms, "the logits are", logits)
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


def check_draw(estimator: object, draw: Any, kind: type[Any]) -> None:
    """Raise unless ``draw`` is of this kind and was made by the estimator."""
    if not isinstance(draw, kind):
        raise TypeError(f"draw must come from {estimator}.sample, got {type(draw).__name__}")
    if draw.maker is not estimator:
        other = "another " if repr(draw.maker) == repr(estimator) else ""
        raise ValueError(
            f"{estimator} cannot use a draw of {other}{draw.maker}, its gradient would be wrong: "
            "call surrogate on the estimator that sampled"
        )


def check_graph(maker: object, logits: Tensor, drawn: Tensor, z: Tensor | None) -> None:
    """Raise if there will be a gradient, but the indices were drawn in inference mode, or the
    samples ``z``, through which it must pass, without a graph.
    """
    wanted = torch.is_grad_enabled() and logits.requires_grad
    if wanted and not torch.compiler.is_compiling() and drawn.is_inference():
        raise ValueError(
            f"the samples of {maker} were drawn under torch.inference_mode(): call sample where "
            "gradients are enabled"
        )
    if wanted and z is not None and not z.requires_grad:
        raise ValueError(
            f"the samples of {maker} were drawn without their graph, as under torch.no_grad(): "
            "call sample where gradients are enabled"
        )


def fingerprint(logits: Tensor) -> int | Tensor | None:
    """A value that differs later if the tensor was changed in place: torch's count of such changes,
    or, for a part of a larger tensor, whose changes torch counts together, a copy. None where
    changes cannot be noticed.
    """
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(logits):
        return None
    if logits.is_inference():
        return None
    if logits._base is not None and logits._base.numel() > logits.numel():
        return logits.detach().clone()
    return logits._version


def check_unchanged(logits: Tensor, before: int | Tensor | None) -> None:
    """Raise if logits were changed in place since samples were drawn from them."""
    if isinstance(before, Tensor):
        changed = holds(lambda: not torch.equal(logits.detach(), before))
    else:
        changed = before is not None and fingerprint(logits) not in (None, before)
    if changed:
        raise ValueError(
            "the logits were changed in place since the samples were drawn from them, as by a step "
            "of an optimiser: sample again, or sample from logits.clone()"
        )


def check_values(
    values: object,
    indices: Tensor,
    terms: int | None = None,
    *,
    variables: bool = True,
    name: str = "f",
) -> Tensor:
    """The values of ``f`` at samples ``[N, *batch, D]``, if they are finite floats ``[N, *batch]``,
    or ``[N, *batch, K]`` of K terms.

    Args:
        values: what ``f`` returned.
        indices: the samples.
        terms: the number of terms, K.
        variables: whether the last dimension of the samples is that of variables.
        name: what errors call the function.
    """
    samples = indices.shape
    expected, what = samples[:-1], "[N, *batch]"
    if terms is not None:
        expected, what = torch.Size((*expected, terms)), "[N, *batch, K]"
    shape = list(expected)
    if not isinstance(values, Tensor):
        raise TypeError(
            f"the values of {name} must be a tensor {what} = {shape}, got "
            f"{type(values).__name__}; {_how_to_return(values, name)}"
        )
    if not (values.is_floating_point() or values.is_complex()):
        raise TypeError(
            f"the values of {name} must be floating point, got {values.dtype}; use .float()"
        )
    check_floats(f"the values of {name}", values)
    check_same_device(f"the values of {name}", values, "z is", indices)
    if values.shape != expected:
        each = "sample" if terms is None else f"sample and each of the {terms} terms"
        hint = _how_to_shape(values.shape, samples, expected, variables and terms is None)
        raise ValueError(
            f"the values of {name} must be one per {each}, {what} = {shape}, "
            f"got shape {list(values.shape)}{hint}"
        )
    # A sum can be infinite of finite values, but not the other way round.
    if holds(lambda: not math.isfinite(values.detach().sum())) and not values.isfinite().all():
        bad = int((~values.isfinite()).sum())
        raise ValueError(f"{name} returned NaN or infinity for {bad} of {values.numel()} samples")
    return values


def _how_to_return(values: object, name: str) -> str:
    """What to do about values that are no tensor."""
    if values is None:
        return f"{name} must return them"
    if isinstance(values, tuple):
        return (
            "to get more than values out of it take two steps: draw = estimator.sample(logits), "
            "values, more = f(draw.z), estimator.surrogate(draw, values)"
        )
    return "use torch.as_tensor(values, dtype=torch.float32)"


def _how_to_shape(
    shape: torch.Size, samples: torch.Size, expected: torch.Size, may_have_terms: bool
) -> str:
    """What to do about values of the wrong shape; empty if there is no telling."""
    if shape == (*expected, 1):
        return "; use values.squeeze(-1)"
    if shape == samples[:-1]:
        return "; with terms, f returns each term and not their sum"
    if len(shape) < len(expected):
        return "; keep the dimensions of samples and examples, do not average over them"
    if may_have_terms and shape == samples:
        example = "each example" if len(samples) > 2 else "one example"
        return (
            f"; logits are [*batch, D, C], so these were D = {samples[-1]} variables of {example}: "
            "for a batch of single variables use logits.unsqueeze(-2), and for one term of a sum "
            f"per variable give terms=torch.eye({samples[-1]})"
        )
    if may_have_terms and shape[:-1] == expected:
        return "; if these are the terms of a sum, give terms, a mask [K, D]"
    return ""
