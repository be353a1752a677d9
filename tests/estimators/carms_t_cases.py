"""Problems for CARMS-T, and CARMS-T with scales of our own."""

import torch
from helpers import configurations, generator

from carms.estimators.carms_t import CarmsT
from carms.estimators.families.cross_fit import Past, cross_fit, moments

REPLICATES = 200_000


def network(variables, categories, steepness, seed=0):
    source = generator(seed)
    first = torch.randn(variables, categories, 8, generator=source, dtype=torch.float64)
    last = torch.randn(8, generator=source, dtype=torch.float64)

    def f(z):
        inner = torch.einsum("...dc,dch->...h", z, first.to(z.dtype)) / variables**0.5
        return 3 + (steepness * inner).tanh() @ last.to(z.dtype)

    return f


def quadratic(z):
    weight = torch.randn(6, 6, generator=generator(5), dtype=torch.float64)
    flat = z.flatten(-2).double()
    return (flat @ weight * flat).sum(-1) + flat @ weight[0]


def true_gradient(f, probs):
    logits = probs.log().requires_grad_()
    points = configurations(*probs.shape)
    weights = (logits.softmax(-1) * points).sum(-1).prod(-1)
    value = (weights * f(points)).sum()
    return value.item(), torch.autograd.grad(value, logits)[0]


def fitted(base, *terms):
    return cross_fit(moments(torch.stack((base, *terms), -3).flatten(-2)))


class InGroups(Past):
    """Replicates are a batch dimension, and scales are fitted within groups of a few of them."""

    def __init__(self, terms, group):
        super().__init__(terms)
        self.group = group

    def combine(self, base, terms, before):
        rows = [row.unflatten(0, (-1, self.group)) for row in (base, *terms)]
        own = moments(torch.stack(rows, -3).flatten(-2))
        scales = torch.func.vmap(cross_fit)(own).flatten(0, 1)[..., None, None]
        return base + sum(scales[:, k] * term for k, term in enumerate(terms)), own

    def add(self, own):
        pass


def in_groups(group, **options):
    estimator = CarmsT(**options)
    estimator.past = InGroups(len(estimator.past.total) - 1, group)
    return estimator


class Fixed(Past):
    """With scales of our own."""

    def __init__(self, scales):
        super().__init__(len(scales))
        self.scales = scales

    def combine(self, base, terms, before):
        return base + sum(s * term for s, term in zip(self.scales, terms, strict=True)), None

    def add(self, own):
        pass


def scaled(*scales, **options):
    estimator = CarmsT(**options)
    estimator.past = Fixed(scales)
    return estimator
