"""The trapezoid rule for differences of ``f``, and neighbours that measure what it leaves out."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.dtypes import precise_dtype
from carms.core.pairs import pair_weights
from carms.core.products import exact_product
from carms.core.random import uniform
from carms.estimators.families.cross_fit import Past
from carms.estimators.families.slopes import finite_slopes

__all__ = ["Memory", "base_and_terms", "change_one", "estimate", "sources", "trapezoid"]


class Memory(NamedTuple):
    """What a draw of ``carms-t`` remembers beside its B base samples and K neighbours.

    Attributes:
        probs: ``[*batch, D, C]``.
        ratio: ``[B (B - 1) / 2, *batch, D]``, ``p_i p_j / P(i, j)`` of the pairs of base samples.
        weights: ``[B + K, *batch]`` of the evaluations in the value; they add up to one.
        reach: ``[K, *batch]``, the expected number of variables that a fresh draw would change.
        past: ``[1 + terms, 1 + terms]``, the sum of the moments of past calls, zeros if there were
            too few of them; empty if there is a batch.
    """

    probs: Tensor
    ratio: Tensor
    weights: Tensor
    reach: Tensor
    past: Tensor


def estimate(
    maker: object, past: Past, memory: Memory, z: Tensor, values: Tensor, slopes: Tensor
) -> tuple[Tensor, Tensor]:
    """The estimate ``[*batch, D, C]``, and the moments to remember.

    Args:
        maker: the estimator, named in errors.
        past: fits the scales.
        memory: what the draw remembers.
        z: ``[N, *batch, D, C]``, one-hot.
        values: ``[N, *batch]``, less that of the first sample.
        slopes: ``[N, *batch, D, C]``, derivatives of the values.
    """
    probs = memory.probs
    z, slopes = z.to(probs.dtype), finite_slopes(maker, slopes.to(probs.dtype), probs > 0)
    return past.combine(*base_and_terms(memory, z, values, slopes), memory.past)


def base_and_terms(
    memory: Memory, z: Tensor, values: Tensor, slopes: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """An estimate ``A [*batch, D, C]`` of the gradient, and terms of mean zero to add to it.

    The terms are ``T - T'`` and, if there is more than one base sample, ``F' - A``, in the names
    of ``carms-t``.

    Args:
        memory: what the draw remembers.
        z: ``[B + K, *batch, D, C]``, one-hot.
        values: ``[B + K, *batch]``, less that of the first sample.
        slopes: ``[B + K, *batch, D, C]``, derivatives of the values.
    """
    neighbours = len(memory.reach)
    base = len(z) - neighbours
    change = sources(z, base, neighbours) - z[base:]
    both_slopes = sources(slopes, base, neighbours) + slopes[base:]
    by_slopes = (both_slopes * change).sum((-2, -1)) / 2
    by_values = sources(values, base, neighbours) - values[base:]
    both = torch.stack((by_slopes, by_values)) * (memory.reach / (2 * neighbours))
    by_neighbour_slopes, by_neighbour_values = (both[..., None, None] * change).sum(1)
    terms = [trapezoid(memory.probs, z[:base], slopes[:base]) - by_neighbour_slopes]
    if base == 1:
        return by_neighbour_values, terms
    weights = pair_weights(values[:base].unsqueeze(-1), memory.ratio)
    pairs: Tensor = (weights.unsqueeze(-1) * z[:base]).sum(0)
    return pairs, [*terms, by_neighbour_values - pairs]


def sources(samples: Tensor, base: int, neighbours: int) -> Tensor:
    """The base sample ``[K, ...]`` of each neighbour; only the first B ``samples`` are used."""
    if neighbours <= base:
        return samples[:neighbours]
    return samples[torch.arange(neighbours, device=samples.device) % base]


def trapezoid(probs: Tensor, z: Tensor, slopes: Tensor) -> Tensor:
    """``mean_n 1/2 [(h_i - sum_c p_c h_c) e_i + p * (h - h_i)]`` for each variable,
    ``[*batch, D, C]``.

    Args:
        probs: ``p [*batch, D, C]``.
        z: ``[N, *batch, D, C]``, one-hot; i is the category of sample n.
        slopes: ``h [N, *batch, D, C]``, derivatives of ``f`` there.
    """
    # What all slopes of a variable have in common cancels, so h_i is subtracted before anything is
    # rounded. A product with ones adds up short rows faster than a sum.
    ones = probs.new_ones(probs.shape[-1])
    above = slopes - exact_product(z * slopes, ones).unsqueeze(-1)
    mean = exact_product(probs * above, ones).unsqueeze(-1)
    return (probs * above.sum(0)).sub_((mean * z).sum(0)).div_(2 * len(z))


class Changed(NamedTuple):
    """Samples with one variable changed.

    Attributes:
        indices: ``[K, *batch, D]``.
        reach: ``[K, *batch]``, the sum of the probabilities to change.
        accepted: ``[K, *batch]``, the probability of acceptance.
    """

    indices: Tensor
    reach: Tensor
    accepted: Tensor


def change_one(probs: Tensor, z: Tensor, generator: torch.Generator | None) -> Changed:
    """Change one variable of each of ``z [K, *batch, D]`` to another category.

    Variable and category are drawn together, in proportion to the probabilities of all categories
    but those of ``z``: a variable as often as a fresh draw would change it. The changed samples
    come at the rate of the original ones if each is accepted with the probability of a Metropolis
    step.
    """
    count, *batch, variables = z.shape
    categories, wide = probs.shape[-1], precise_dtype(probs.device)
    u = uniform(batch, generator, wide, probs.device)
    if not variables:
        return Changed(z, u.new_zeros(count, *batch), u.new_zeros(count, *batch))
    if count > 1:
        # One random number for all, spread evenly: they tend to change different variables.
        u = torch.stack([(u + k / count).frac_() for k in range(count)])
    p, index = probs.expand(count, *probs.shape), z.unsqueeze(-1)
    own, others = p.gather(-1, index).squeeze(-1), p.scatter(-1, index, 0).flatten(-2)
    ends = others.cumsum(-1, dtype=wide)
    reach = ends[..., -1:]
    target = reach * u.unsqueeze(-1)
    cell = torch.searchsorted(ends, target, right=True).clamp_max_(others.shape[-1] - 1)
    place = cell // categories
    # What is certain does not change.
    after = torch.where(target > 0, cell % categories, z.gather(-1, place))
    reach_after = reach + own.gather(-1, place) - others.gather(-1, cell)
    most = torch.maximum(reach, reach_after).clamp_min_(torch.finfo(wide).tiny)
    return Changed(z.scatter(-1, place, after), reach.squeeze(-1), (reach / most).squeeze(-1))
