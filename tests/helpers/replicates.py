"""Statistics that compare estimates over many replicates with the truth."""

from statistics import NormalDist

import torch
from torch import Tensor

from helpers.problems import generator


def z_limit(comparisons: int, chance: float = 1e-6) -> float:
    """The |z| that the largest of ``comparisons`` exceeds with probability ``chance``."""
    return -NormalDist().inv_cdf(chance / (2 * comparisons))


def assert_frequencies(frequency: Tensor, probability: Tensor, draws: int) -> None:
    """Frequencies of events in ``draws`` independent draws against their probabilities."""
    impossible = probability.abs() < 1e-12
    assert (frequency[impossible] == 0).all(), "something of probability zero was drawn"
    error = (probability * (1 - probability) / draws).clamp_min(0).sqrt()
    z = ((frequency - probability).abs() / error.clamp_min(1e-12))[~impossible]
    assert z.max() < z_limit(z.numel()), f"largest |z| is {z.max():.1f}"


def chi_square_chance(counts: Tensor, expected: Tensor) -> float:
    """Probability that counts deviate by chance from their expectations at least this much."""
    statistic = ((counts - expected).square() / expected).sum()
    freedom = torch.tensor((counts.numel() - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))


def pair_frequencies(indices: Tensor, categories: int) -> Tensor:
    """``[pairs of positions, C, C]``: how often ``[N, R]`` samples were ``i`` and ``j``."""
    count, draws = indices.shape
    one_hot = torch.nn.functional.one_hot(indices.T, categories).flatten(1).float()
    table = (one_hot.T @ one_hot).double() / draws
    table = table.view(count, categories, count, categories).transpose(1, 2)
    first, second = torch.triu_indices(count, count, 1)
    return table[first, second]


class Moments:
    """Mean and variance over independent replicates, added in chunks."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, 0.0, 0.0

    def add(self, rows: Tensor) -> None:
        self.count += len(rows)
        self.total = self.total + rows.sum(0)
        self.squares = self.squares + rows.square().sum(0)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def variance(self) -> Tensor:
        return (self.squares / self.count - self.mean.square()).clamp_min(0)

    def z(self, truth: Tensor | float) -> Tensor:
        error = (self.variance / self.count).sqrt()
        return (self.mean - truth).abs() / error.clamp_min(1e-12)

    def agrees_with(self, truth: Tensor | float) -> bool:
        z = self.z(truth)
        return bool(z.max() < z_limit(z.numel()))


def replicate(estimator, f, logits, replicates, *, wrap=None, chunk=10_000, seed=0, terms=None):
    """Moments of value and gradient over replicates that are a batch dimension.

    ``f`` takes samples and the logits ``[chunk, ...]`` that they were drawn from; ``wrap`` makes
    of such logits what the estimator is given.
    """
    source, values, gradients = generator(seed), Moments(), Moments()
    for start in range(0, replicates, chunk):
        rows = min(chunk, replicates - start)
        leaf = logits.expand(rows, *logits.shape).clone().requires_grad_()
        given = wrap(leaf) if wrap else leaf
        value = estimator.expectation(lambda *z, leaf=leaf: f(*z, leaf), given, source, terms=terms)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        values.add(value.detach())
        gradients.add(gradient)
    return values, gradients
